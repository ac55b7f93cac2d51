// SPDX-License-Identifier: Apache-2.0
// Explains what is wrong with a command line.
//
//   return explain({.command = stat, .name = "headrace stat", .extras = {"--jsn"}});
//   // "there is no option --jsn, did you mean --json? see headrace stat --help"
//
// Thread-safety: pure.
#pragma once

#include <string>
#include <vector>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

struct Misuse {
  const Command& command;           // that the words led to
  std::string name;                 // in full
  std::vector<std::string> extras;  // words that nothing takes
  std::string problem;              // what else is wrong
};

// One line: what is wrong with the command line, and which --help tells more.
[[nodiscard]] std::string explain(const Misuse& misuse);

}  // namespace headrace::cli
