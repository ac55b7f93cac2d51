// SPDX-License-Identifier: Apache-2.0
// A command of the user's that runs while it is watched.
//
//   HEADRACE_TRY(command, ChildCommand::start({"python", "train.py"}));
//   if (command.ended() == 1) ...                      // by itself, with status 1
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "headrace/io/result.h"

namespace headrace::cli {

// It and all processes that it starts are a process group of their own. What it prints goes to stderr.
// The destructor sends SIGTERM and kills what does not end by that.
// Thread-safety: one thread at a time. Ownership: move-only.
class ChildCommand {
 public:
  // Errors: kNotFound and others of posix_spawnp(3).
  [[nodiscard]] static io::Result<ChildCommand> start(std::vector<std::string> words);
  ~ChildCommand();
  ChildCommand(ChildCommand&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildCommand& operator=(ChildCommand&&) = delete;

  [[nodiscard]] pid_t group() const { return pid_; }
  // Its exit status, or 128 and the number of the signal that ended it; nullopt: it runs.
  [[nodiscard]] std::optional<int> ended() const;

 private:
  ChildCommand() = default;
  pid_t pid_ = -1;
};

// The exit status for the whole program, where what it ran has failed; 0: nothing has.
[[nodiscard]] int failed_child_status();
void note_failed_child(int status);

}  // namespace headrace::cli
