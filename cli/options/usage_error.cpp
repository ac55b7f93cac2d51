// SPDX-License-Identifier: Apache-2.0
// Says what to write instead of what is wrong. The messages of CLI11 name its classes.
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

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// ": ls, rm" where there are only a few.
std::string among(const CLI::App& app) {
  constexpr std::size_t kFew = 4;
  const std::vector<std::string> names = command_names(app);
  return names.size() <= kFew ? fmt::format(": {}", fmt::join(names, ", ")) : "";
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The command that the words led to, and its name in full.
struct Reached {
  const CLI::App* command;
  std::string name;
};

Reached follow(const CLI::App& app) {
  Reached reached{&app, app.get_name()};
  while (!reached.command->get_subcommands().empty()) {
    reached.command = reached.command->get_subcommands().front();
    reached.name += " " + reached.command->get_name();
  }
  return reached;
}

std::string describe(const CLI::App& command, const CLI::ParseError& failure) {
  const std::vector<std::string> extras = command.remaining();
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const auto& word) { return word.starts_with('-'); });
  if (option != extras.end()) {
    return fmt::format("there is no option {}{}", *option, suggest(*option, option_names(command)));
  }
  if (command.get_require_subcommand_min() > 0) {
    if (extras.empty()) return fmt::format("a command is missing{};", among(command));
    return fmt::format("there is no command '{}'{}", extras.front(), suggest(extras.front(), command_names(command)));
  }
  if (!extras.empty()) return fmt::format("'{}' is one argument too many;", extras.front());
  return in_plain_words(failure) + ";";
}

}  // namespace

std::string in_plain_words(const CLI::ParseError& failure) {
  std::string text = failure.what();
  if (failure.get_name() == "ArgumentMismatch") {  // its text begins with "NAME: "
    const bool is_missing = text.ends_with("missing");
    return text.substr(0, text.find(':')) + (is_missing ? " needs a value" : " takes one value only");
  }
  constexpr std::string_view kNoFlag = "Could not convert: ";
  if (text.starts_with(kNoFlag)) return text.substr(kNoFlag.size()) + " makes no sense";
  return text;
}

std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& failure) {
  const Reached reached = follow(app);
  return fmt::format("{} see {} --help", describe(*reached.command, failure), reached.name);
}

}  // namespace headrace::cli
