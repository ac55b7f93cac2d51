// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/help_page.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "headrace/cli/show/wrap.h"

namespace headrace::cli {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kTextColumn = 26;  // where descriptions start

// "  NAME    description" with the description wrapped. A name that is too long gets a line of its own.
std::string format_entry(std::string_view name, std::string_view description) {
  std::string out = fmt::format("  {}", name);
  if (out.size() + 2 > kTextColumn) out += "\n" + std::string(kTextColumn, ' ');
  const std::size_t column = out.size() > kTextColumn ? kTextColumn : out.size();
  out.append(kTextColumn - column, ' ');
  return out + wrap(description, {.columns = kColumns, .indent = kTextColumn}) + "\n";
}

std::string format_option(const Option& option) {
  std::string name = option.letter == 0 ? "" : fmt::format("-{}, ", option.letter);
  name += option.name;
  std::string description = option.help;
  // The description lists the choices, so that the names stay short.
  if (const std::vector<std::string> choices = option.choices(); !choices.empty()) {
    description += fmt::format(": {}", fmt::join(choices, ", "));
  } else if (!option.is_argument() && !option.value.empty()) {
    name += fmt::format(" {}", fmt::join(split_at(',', option.value), ", "));
  }
  if (!option.default_text.empty()) description += fmt::format(" [{}]", option.default_text);
  return format_entry(name, description);
}

// "SOURCE [NAME...]"
std::string usage_of(const Option& argument) {
  const std::string name = fmt::format("{}{}", argument.name, argument.is_list() ? "..." : "");
  return argument.required ? name : "[" + name + "]";
}

std::string usage(const Command& command, std::string_view name) {
  std::string line = fmt::format("Usage: {} [OPTIONS]", name);
  for (const Option& option : command.options) {
    if (option.is_argument()) line += " " + usage_of(option);
  }
  if (!command.commands.empty()) line += command.needs_command ? " COMMAND" : " [COMMAND]";
  return line + "\n";
}

// Entries under headings, which come in the order of their first entries.
class Sections {
 public:
  void add(std::string_view heading, const std::string& entry) {
    const auto has_heading = [&](const Section& section) { return section.heading == heading; };
    auto section = std::find_if(sections_.begin(), sections_.end(), has_heading);
    if (section == sections_.end()) section = sections_.insert(section, {heading, {}});
    section->entries += entry;
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const Section& section : sections_) all += fmt::format("\n{}:\n{}", section.heading, section.entries);
    return all;
  }

 private:
  struct Section {
    std::string_view heading;
    std::string entries;
  };
  std::vector<Section> sections_;
};

}  // namespace

std::string help_page(const Command& command, std::string_view name) {
  Sections arguments;
  Sections options;
  Sections commands;
  for (const Option& option : command.options) {
    if (option.is_argument()) {
      arguments.add("Arguments", format_option(option));
    } else {
      options.add(option.group, format_option(option));
    }
  }
  for (const Command& child : command.commands) {
    if (!child.group.empty()) commands.add(child.group, format_entry(child.name, child.description));
  }
  const std::string footer = command.footer.empty() ? "" : command.footer + "\n";
  return fmt::format("{}\n{}{}{}{}\n{}", command.description, usage(command, name), arguments.text(), options.text(),
                     commands.text(), footer);
}

}  // namespace headrace::cli
