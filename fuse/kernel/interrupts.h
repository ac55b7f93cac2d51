// SPDX-License-Identifier: Apache-2.0
// Requests whose askers were killed while they wait for the answer. The kernel lets nobody go who waits for one that it
// has handed out, and a source that hangs may take minutes.
//
//   interrupts.note(unique);                                          // it waits for storage, or a signal came
//   for (const std::uint64_t each : interrupts.take_killed(log)) ...  // whenever fd() is readable: EINTR
//
// The kernel tells of a signal once, not which one it was, and nothing of those who read past the page cache (Linux
// 6.18, fuse_direct_IO). Whoever has a handler for it waits on, as on any file system; he may be killed later. So who
// waits is looked at twice a second until his request is answered.
//
// Thread-safety: every function from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <sys/types.h>

#include "headrace/fuse/kernel/request_log.h"
#include "headrace/io/mutex.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

class Interrupts {
 public:
  Interrupts();

  // Readable when somebody is to be looked at again; take_killed() makes it unreadable. -1: errno says why.
  [[nodiscard]] int fd() const { return timer_.get(); }
  void note(std::uint64_t unique);
  // Each once. `log` says who asked.
  [[nodiscard]] std::vector<std::uint64_t> take_killed(RequestLog& log);

 private:
  void set_timer(bool runs) HEADRACE_REQUIRES(mutex_);

  const io::UniqueFd timer_;
  io::Mutex mutex_;  // the log's is taken under it
  // Requests, and how often the log did not know them: it may not yet, right after one was read.
  std::map<std::uint64_t, unsigned> noted_ HEADRACE_GUARDED_BY(mutex_);
};

// Whether a thread is about to end by a signal, and waits for something that keeps it.
[[nodiscard]] bool is_killed(pid_t thread);

}  // namespace headrace::fuse
