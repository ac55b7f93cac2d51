// SPDX-License-Identifier: Apache-2.0
// Tells a thread that waits for a socket or a pipe that nobody needs the answer any more.
//
//   StopEvent stop;
//   find_keys({.stop = &stop, ...});   // on another thread: kCancelled, soon after
//   stop.set();
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

namespace headrace::cache {

class StopEvent {
 public:
  // Without a descriptor for it whoever waits finds out at the end of its own wait.
  StopEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void set() {
    is_set_.store(true);
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_.get(), &one, sizeof one));
  }
  [[nodiscard]] bool is_set() const { return is_set_.load(); }
  // Readable from set() on. Nobody reads from it.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  std::atomic<bool> is_set_ = false;
  const io::UniqueFd fd_;
};

}  // namespace headrace::cache
