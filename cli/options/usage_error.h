// SPDX-License-Identifier: Apache-2.0
// Explains what is wrong with a command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace headrace::cli {

// What is wrong, without the words of the library that parses.
[[nodiscard]] std::string in_plain_words(const CLI::ParseError& failure);

// One line: what is wrong with the command line, and which --help tells more. `app` is the whole command line after it
// failed to parse.
[[nodiscard]] std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& failure);

}  // namespace headrace::cli
