// SPDX-License-Identifier: Apache-2.0
// Takes settings from a TOML file and from the environment. The command line counts most, then the environment, then
// the file.
//
// Thread-safety: one thread, as the table.
#pragma once

#include <string>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

// Gives the options of `command` that have no value yet the value from a TOML file. Errors: kInvalidArgument; the text
// names the file, the option and the remedy.
[[nodiscard]] io::Status apply_config_file(Command& command, const std::string& file);
// Lets each --some-option be given as HEADRACE_SOME_OPTION.
void add_environment_names(Command& command);

}  // namespace headrace::cli
