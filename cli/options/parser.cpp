// SPDX-License-Identifier: Apache-2.0
// Only this source includes CLI11, which takes long to compile. CLI11 finds out which word is what and which options
// are missing or exclude each other; what it is told is made from the table, and what it says is put into our words.
#include "headrace/cli/options/parser.h"

#include <map>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "headrace/cli/options/help_page.h"
#include "headrace/cli/options/usage_error.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// A command line of CLI11, made from the table.
class CommandLine {
 public:
  explicit CommandLine(Command& program) : app_("", std::string(program.name)) { fill(app_, program); }

  void parse(const std::vector<std::string>& words) {
    app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // in CLI11's order, the last one first
    for (const auto& [option, ours] : flags_) ours->given = option->results();
  }

  [[nodiscard]] Misuse misuse(std::string problem) const;
  [[nodiscard]] std::string in_plain_words(const CLI::ParseError& failure) const;
  // What the words led to.
  [[nodiscard]] const CLI::App& reached() const;
  [[nodiscard]] Command& command_of(const CLI::App& app) const { return *commands_.at(&app); }
  [[nodiscard]] std::string name_in_full(const CLI::App& app) const;

 private:
  void fill(CLI::App& app, Command& command);
  CLI::Option* add(CLI::App& app, Option& option);
  CLI::Option* add_value(CLI::App& app, Option& option);

  CLI::App app_;
  std::map<const CLI::App*, Command*> commands_;  // of each app that has its options
  std::map<std::string, std::string> arguments_;  // how CLI11 calls an argument, and its name
  std::vector<std::pair<CLI::Option*, Option*>> flags_;
};

// The options of a command below are added once the words have come to it: the others need none, nor what the
// environment says of them.
void CommandLine::fill(CLI::App& app, Command& command) {
  commands_[&app] = &command;
  std::map<std::string_view, CLI::Option*> options;
  for (Option& option : command.options) options[option.name] = add(app, option);
  for (const Option& option : command.options) {
    for (const std::string_view other : option.needs) options[option.name]->needs(options.at(other));
    for (const std::string_view other : option.excludes) options[option.name]->excludes(options.at(other));
  }
  for (Command& child : command.commands) {
    CLI::App* below = app.add_subcommand(std::string(child.name));
    if (!child.alias.empty()) below->alias(std::string(child.alias));
    below->preparse_callback([this, below, &child](std::size_t) { fill(*below, child); });
  }
  app.require_subcommand(command.needs_command ? 1 : 0, 1);
}

CLI::Option* CommandLine::add(CLI::App& app, Option& option) {
  std::string names(option.name);
  if (option.letter != 0) names += fmt::format(",-{}", option.letter);
  const auto add_flag = [&](bool* flag) {
    flags_.emplace_back(app.add_flag(names, *flag), &option);
    return flags_.back().first;
  };
  CLI::Option* added =
      std::visit(Overloaded{[&](const HelpPage&) { return app.set_help_flag(names); },
                            [&](const VersionLine& version) { return app.set_version_flag(names, version.text); },
                            [&](void (*function)()) { return app.add_flag_callback(names, function); }, add_flag,
                            [&](const auto&) { return add_value(app, option); }},
                 option.target);
  return added->envname(option.environment)->required(option.required);
}

CLI::Option* CommandLine::add_value(CLI::App& app, Option& option) {
  std::string name(option.name);
  if (option.is_argument()) {  // CLI11 takes no name such as NAME=VALUE
    name = fmt::format("argument{}", arguments_.size());
    arguments_[name] = option.name;
  } else if (option.letter != 0) {
    name += fmt::format(",-{}", option.letter);
  }
  CLI::Option* added = app.add_option(name, [&option](const std::vector<std::string>& values) {
    const io::Status taken = option.take(values);
    if (!taken) throw CLI::ValidationError(taken.error().context, CLI::ExitCodes::ValidationError);
    return true;
  });
  // An option takes the word behind it and no more; it may be given again.
  if (option.is_list()) added->expected(1, -1)->allow_extra_args(option.is_argument());
  return added;
}

const CLI::App& CommandLine::reached() const {
  const CLI::App* app = &app_;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return *app;
}

std::string CommandLine::name_in_full(const CLI::App& app) const {
  const std::string& name = app.get_name();
  return app.get_parent() == nullptr ? name : name_in_full(*app.get_parent()) + " " + name;
}

Misuse CommandLine::misuse(std::string problem) const {
  const CLI::App& app = reached();
  std::vector<std::string> extras = app.remaining();
  std::erase(extras, "--");  // ends the options, and is none itself
  return {.command = command_of(app),
          .name = name_in_full(app),
          .extras = std::move(extras),
          .problem = std::move(problem)};
}

// The messages of CLI11 name its classes, and begin with the option's name.
std::string CommandLine::in_plain_words(const CLI::ParseError& failure) const {
  std::string text = failure.what();
  const std::string first = text.substr(0, text.find_first_of(": "));
  if (const auto argument = arguments_.find(first); argument != arguments_.end()) {
    text.replace(0, first.size(), argument->second);
  }
  if (failure.get_name() == "ArgumentMismatch") {  // its text begins with "NAME: "
    const bool is_missing = text.ends_with("missing");
    return text.substr(0, text.find(':')) + (is_missing ? " needs a value" : " takes one value only");
  }
  constexpr std::string_view kNoFlag = "Could not convert: ";
  if (text.starts_with(kNoFlag)) return text.substr(kNoFlag.size()) + " makes no sense";
  return text;
}

Selected print(std::string text) {
  return [text = std::move(text)]() -> io::Status {
    fmt::print("{}", text);
    return {};
  };
}

// An option that CLI11 does not take for one is a fault of the program's.
tl::unexpected<io::Error> broken(const CLI::Error& failure) {
  return make_error(ErrorCode::kSystem, fmt::format("this program's own options are wrong: {}", failure.what()));
}

}  // namespace

io::Result<Selected> parse(Command& program, const std::vector<std::string>& words) try {
  CommandLine parser(program);
  const auto refuse = [&](std::string problem) {
    return make_error(ErrorCode::kInvalidArgument, explain(parser.misuse(std::move(problem))));
  };
  try {
    parser.parse(words);
  } catch (const CLI::CallForHelp&) {
    const CLI::App& app = parser.reached();
    return print(help_page(parser.command_of(app), parser.name_in_full(app)));
  } catch (const CLI::CallForVersion& version) {
    return print(fmt::format("{}\n", version.what()));
  } catch (const CLI::ParseError& failure) {
    return refuse(parser.in_plain_words(failure));
  }
  const Command& chosen = parser.command_of(parser.reached());
  if (chosen.settle) {
    if (const io::Status settled = chosen.settle(); !settled) return refuse(settled.error().context);
  }
  return chosen.run;
} catch (const CLI::Error& failure) {
  return broken(failure);
}

io::Status parse_options(Command& command, const std::vector<std::string>& words) try {
  CommandLine parser(command);
  try {
    parser.parse(words);
  } catch (const CLI::ParseError& failure) {
    return make_error(ErrorCode::kInvalidArgument, parser.in_plain_words(failure));
  }
  return {};
} catch (const CLI::Error& failure) {
  return broken(failure);
}

}  // namespace headrace::cli
