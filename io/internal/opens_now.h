// SPDX-License-Identifier: Apache-2.0
// When to open a file on the thread that drives the engine rather than hand it to the kernel's workers.
//
//   if (opens_now.allowed(started)) { fd = open(...); opens_now.on_opened(taken); }
//
// A worker costs two thread switches for each file whose name is not in the kernel's cache, as long as the open itself
// takes where its folder is. But an open that waits for the device holds up what else is in flight: so only while that
// is little, and not for a while after one that waited.
//
// Thread-safety: none; the driving thread. No clock of its own.
#pragma once

#include <chrono>

namespace headrace::io::internal {

class OpensNow {
 public:
  // `started`: operations in flight, with the one to be opened.
  [[nodiscard]] bool allowed(unsigned started);
  void on_opened(std::chrono::nanoseconds taken);

 private:
  unsigned pause_ = 0;  // opens left to the workers
};

}  // namespace headrace::io::internal
