// SPDX-License-Identifier: Apache-2.0
// Lays help pages out for 80 columns: names on the left, wrapped descriptions with their defaults on the right.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace headrace::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// The default value of an option, or an empty text. A list comes without the brackets that CLI11 puts around it.
[[nodiscard]] std::string default_text(const CLI::Option& option);

}  // namespace headrace::cli
