// SPDX-License-Identifier: Apache-2.0
// What a command is to the command line: one source with its arguments, the function that runs it, and the one that
// adds its options and help texts.
//
//   struct StatArguments { ... };                                   // all in commands/stat.cpp
//   io::Status run_stat(const StatArguments& arguments);
//   void add_stat_command(CLI::App& app, Selected& selected);       // declared in commands/commands.h
//
// A run function prints its result to stdout and what is only for people (progress, warnings) to stderr; on success it
// prints nothing else. An Error is one clear line. kInvalidArgument without an errno means that the command line itself
// makes no sense (exit status 2).
// CLI11 takes long to compile, so only the sources of commands/ and of this room include it.
// Thread-safety: one command per process, on its main thread.
#pragma once

#include <functional>

#include "headrace/io/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace headrace::cli {

// What the chosen command will do; set by its callback once everything is parsed.
using Selected = std::function<io::Status()>;

}  // namespace headrace::cli
