// SPDX-License-Identifier: Apache-2.0
// Takes settings from a TOML file and from the environment. The command line counts most, then the environment, then
// the file.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace headrace::cli {

// Gives the options of `command` that have no value yet the value from a TOML file. Throws CLI::ParseError; its text
// names the file, the option and the remedy.
void apply_config_file(CLI::App& command, const std::string& file);
// Lets each --some-option be given as HEADRACE_SOME_OPTION.
void add_environment_names(CLI::App& command);

}  // namespace headrace::cli
