// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace headrace::cli {

// One line: what is wrong with the command line, and which --help tells more. `app`: the whole, after parsing failed.
[[nodiscard]] std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& failure);

}  // namespace headrace::cli
