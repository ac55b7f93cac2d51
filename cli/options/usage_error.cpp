// SPDX-License-Identifier: Apache-2.0
// Says what to write instead of what is wrong.
#include "headrace/cli/options/usage_error.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace headrace::cli {
namespace {

// The number of letters to change, insert or remove (Wagner and Fischer, "The String-to-String Correction Problem",
// 1974).
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// ", did you mean --ram?" when the user typed nearly one of the names.
std::string suggest(std::string_view typed, const std::vector<std::string>& names) {
  constexpr std::size_t kTyposMax = 2;
  const auto distance = [&](const std::string& name) { return edit_distance(typed, name); };
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return distance(a) < distance(b);
  });
  return nearest != names.end() && distance(*nearest) <= kTyposMax ? fmt::format(", did you mean {}?", *nearest) : ";";
}

std::vector<std::string> command_names(const Command& command) {
  std::vector<std::string> names;
  for (const Command& child : command.commands) names.emplace_back(child.name);
  return names;
}

// ": ls, rm" where there are only a few.
std::string among(const Command& command) {
  constexpr std::size_t kFew = 4;
  return command.commands.size() <= kFew ? fmt::format(": {}", fmt::join(command_names(command), ", ")) : "";
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    if (!option.long_name().empty()) names.emplace_back(option.name);
  }
  return names;
}

std::string describe(const Misuse& misuse) {
  const std::vector<std::string>& extras = misuse.extras;
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const auto& word) { return word.starts_with('-'); });
  if (option != extras.end()) {
    return fmt::format("there is no option {}{}", *option, suggest(*option, option_names(misuse.command)));
  }
  if (misuse.command.needs_command) {
    if (extras.empty()) return fmt::format("a command is missing{};", among(misuse.command));
    return fmt::format("there is no command '{}'{}", extras.front(),
                       suggest(extras.front(), command_names(misuse.command)));
  }
  if (!extras.empty()) return fmt::format("'{}' is one argument too many;", extras.front());
  return misuse.problem + ";";
}

}  // namespace

std::string explain(const Misuse& misuse) {
  return fmt::format("{} see {} --help", describe(misuse), misuse.name);
}

}  // namespace headrace::cli
