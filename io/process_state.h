// SPDX-License-Identifier: Apache-2.0
// What /proc tells of one process: who its parent is, and whether it is stopped or ending.
//
//   if (const std::optional<ProcessState> state = process_state(pid); state && state->is_stopped) ...
//
// Thread-safety: any thread.
#pragma once

#include <optional>

#include <sys/types.h>

namespace headrace::io {

struct ProcessState {
  bool is_stopped = false;  // by SIGSTOP or a debugger: it lives but does nothing
  bool is_ending = false;   // it was killed, and does nothing any more; a thread of it may still wait for the kernel
  pid_t parent = 0;
};

// nullopt: there is no such process, or this user may not look.
[[nodiscard]] std::optional<ProcessState> process_state(pid_t pid);

}  // namespace headrace::io
