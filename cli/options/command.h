// SPDX-License-Identifier: Apache-2.0
// What a command is to the command line: one function that adds it, beside the function that runs it.
//
//   struct StatArguments { ... };                                   // commands/stat.h
//   io::Status run_stat(const StatArguments& arguments);            // commands/stat.cpp
//   void add_stat_command(CLI::App& app, Selected& selected);       // commands/stat_options.cpp: names and help texts
//
// A run function prints its result to stdout and what is only for people (progress, warnings) to stderr; on success it
// prints nothing else. An Error is one clear line. kInvalidArgument without an errno means that the command line itself
// makes no sense (exit status 2).
// CLI11 takes long to compile, so only *_options.cpp and the sources of this room include it.
// Thread-safety: one command per process, on its main thread.
#pragma once

#include <functional>

#include "headrace/io/result.h"

namespace CLI {
class App;
}

namespace headrace::cli {

// What the chosen command will do; set by its callback once everything is parsed.
using Selected = std::function<io::Status()>;

}  // namespace headrace::cli
