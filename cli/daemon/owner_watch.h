// SPDX-License-Identifier: Apache-2.0
// Waits on a thread of its own for the end of the process that a mount is for.
//
//   const OwnerWatch watch(pidfd, [&] { ... });  // on the thread hr-owner, once, when that process has ended
//
// Thread-safety: one thread makes and ends it. Its destructor waits for the function if that runs.
#pragma once

#include <functional>
#include <thread>

#include "headrace/io/wake_event.h"

namespace headrace::cli {

class OwnerWatch {
 public:
  // `pidfd` stays the caller's and open.
  OwnerWatch(int pidfd, std::function<void()> on_end);
  ~OwnerWatch();
  OwnerWatch(const OwnerWatch&) = delete;
  OwnerWatch& operator=(const OwnerWatch&) = delete;

 private:
  const io::WakeEvent stop_;
  std::thread thread_;
};

}  // namespace headrace::cli
