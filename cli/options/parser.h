// SPDX-License-Identifier: Apache-2.0
// Reads the words of a command line into the variables of the table (command.h).
//
//   HEADRACE_TRY(selected, parse(program, {"stat", "/mnt/train", "--json"}));
//   return selected();
//
// Thread-safety: one thread, as the table.
#pragma once

#include <string>
#include <vector>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

// What the words come to: to run a command, or to print help or the version. It lives no longer than the program's
// table. Errors: kInvalidArgument; one line says what is wrong and which --help tells more.
[[nodiscard]] io::Result<Selected> parse(Command& program, const std::vector<std::string>& words);

// Reads the options of one command alone. Errors: kInvalidArgument; the text says what is wrong, and nothing more.
[[nodiscard]] io::Status parse_options(Command& command, const std::vector<std::string>& words);

}  // namespace headrace::cli
