// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/help_formatter.h"

#include <fmt/core.h>

#include "headrace/cli/show/wrap.h"

namespace headrace::cli {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kTextColumn = 26;  // where descriptions start

// "  NAME    description" with the description wrapped. A name that is too long gets a line of its own.
std::string format_entry(const std::string& name, const std::string& description) {
  std::string out = "  " + name;
  if (out.size() + 2 > kTextColumn) out += "\n" + std::string(kTextColumn, ' ');
  const std::size_t column = out.size() > kTextColumn ? kTextColumn : out.size();
  out.append(kTextColumn - column, ' ');
  return out + wrap(description, {.columns = kColumns, .indent = kTextColumn}) + "\n";
}

}  // namespace

std::string default_text(const CLI::Option& option) {
  const std::string value = option.get_default_str();
  const bool list = value.size() > 2 && value.front() == '[' && value.back() == ']';
  return list ? CLI::detail::find_and_replace(value.substr(1, value.size() - 2), ",", ", ") : value;
}

HelpFormatter::HelpFormatter() {
  label("Positionals", "Arguments");
  label("SUBCOMMAND", "COMMAND");
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (std::size_t gap = text.find("\n\n\n"); gap != std::string::npos; gap = text.find("\n\n\n", gap)) {
    text.erase(gap, 1);
  }
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = option->get_name(is_positional, !is_positional);
  const std::string& type = option->get_type_name();
  std::string description = option->get_description();
  if (!is_positional && option->get_type_size() != 0 && !type.empty()) {
    // The description lists the choices, so that the names stay short.
    if (type.find('|') == std::string::npos) {
      name += " " + type;
    } else {
      description += ": " + CLI::detail::find_and_replace(type, "|", ", ");
    }
  }
  if (const std::string value = default_text(*option); !value.empty()) description += fmt::format(" [{}]", value);
  return format_entry(CLI::detail::find_and_replace(name, ",", ", "), description);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return format_entry(command->get_name(), command->get_description());
}

}  // namespace headrace::cli
