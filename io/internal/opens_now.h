// SPDX-License-Identifier: Apache-2.0
// Decides whether the thread that drives the engine opens a file itself or leaves that to the kernel's workers.
//
//   if (opens_now.allowed(started)) { fd = open(...); opens_now.on_opened(taken); }
//
// A worker costs two thread switches for each file whose name is not in the kernel's cache. Where the folder is in the
// cache, that is as long as the open itself takes. But an open that waits for the device holds up everything else in
// flight. So the thread opens files only while little is in flight, and not for a while after an open that waited.
//
// Thread-safety: none; the driving thread. No clock of its own.
#pragma once

#include <chrono>

namespace headrace::io::internal {

class OpensNow {
 public:
  // `started`: operations in flight, the one to be opened included.
  [[nodiscard]] bool allowed(unsigned started);
  void on_opened(std::chrono::nanoseconds taken);

 private:
  unsigned pause_ = 0;  // opens left to the workers
};

}  // namespace headrace::io::internal
