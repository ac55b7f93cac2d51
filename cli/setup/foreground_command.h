// SPDX-License-Identifier: Apache-2.0
// Runs a command in place of this program: with its terminal, its input and output, and its signals.
//
//   HEADRACE_TRY(program, find_program("python"));
//   HEADRACE_TRY(status, run_foreground_command(program, {"python", "train.py"}));
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cli {

// Exit statuses of a shell for what it cannot run.
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// Finds it where a shell would: along PATH, unless it names a folder.
// Errors: kNotFound; kPermission (it is there, and cannot be executed).
[[nodiscard]] io::Result<std::filesystem::path> find_program(const std::string& name);

// Returns its exit status, or 128 and the number of the signal that ended it. Signals that end a program, SIGUSR1 and
// SIGUSR2 are passed on to the command meanwhile; what a terminal sends to all of its foreground group has reached the
// command already. `program`: as find_program() says.
// Errors: those of posix_spawn(3).
// Thread-safety: the process must have no other thread, which would take the signals.
[[nodiscard]] io::Result<int> run_foreground_command(const std::filesystem::path& program,
                                                     const std::vector<std::string>& words);

}  // namespace headrace::cli
