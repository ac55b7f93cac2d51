// SPDX-License-Identifier: Apache-2.0
// Tells that a process is dying before it is gone. A killed process keeps its descriptors until its last thread has
// gone, and a thread may wait in the kernel. So one thread (`hr-life`), which waits for nothing that could hold it up,
// has a table of descriptors of its own, and in it the only writing end of a pipe.
//
//   auto line = LifeLine::open();
//   if (fork() == 0) { line->hold(); ...; line->let_go(); exit(0); }
//   poll(line->take_watching_end().get());   // hangs up
//
// Thread-safety: none. hold() is called once per process, before it has other threads.
#pragma once

#include <thread>

#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

class LifeLine {
 public:
  // Errors: kSystem (no descriptor left).
  [[nodiscard]] static io::Result<LifeLine> open();
  LifeLine(LifeLine&&) = default;
  LifeLine& operator=(LifeLine&&) = delete;
  ~LifeLine() { let_go(); }

  // In the process to be watched.
  void hold();
  void let_go();
  // In the process that watches.
  [[nodiscard]] io::UniqueFd take_watching_end();

 private:
  LifeLine() = default;

  io::UniqueFd watched_;  // the pipe
  io::UniqueFd held_;
  io::UniqueFd let_go_read_;  // a pipe that ends the thread by its end
  io::UniqueFd let_go_write_;
  std::thread thread_;
};

}  // namespace headrace::fuse
