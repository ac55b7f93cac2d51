// SPDX-License-Identifier: Apache-2.0
// headrace completion and headrace manual: the command line described by itself.
#include "headrace/cli/reference/reference.h"

#include <memory>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/version.h"

namespace headrace::cli {
namespace {

OptionReference describe(const Option& option) {
  OptionReference reference{.argument = std::string(option.is_argument() ? option.name : option.value),
                            .choices = option.choices(),
                            .description = option.help,
                            .default_value = option.default_text,
                            .environment = option.environment};
  if (!option.is_argument()) reference.names.emplace_back(option.name);
  if (option.letter != 0) reference.names.push_back(fmt::format("-{}", option.letter));
  if (!reference.choices.empty()) reference.argument = "NAME";
  return reference;
}

CommandReference describe(const Command& command, const std::string& name) {
  CommandReference reference{.name = name, .description = std::string(command.description), .notes = command.footer};
  for (const Option& option : command.options) reference.options.push_back(describe(option));
  for (const Command& child : command.commands) {
    if (child.group.empty()) continue;
    reference.commands.push_back(describe(child, fmt::format("{}{}{}", name, name.empty() ? "" : " ", child.name)));
  }
  return reference;
}

// One of the texts that the program writes about itself, by the name that asks for it.
struct Text {
  const char* name;
  std::string (*write)(const CommandReference& program);
};
constexpr Text kCompletions[] = {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
constexpr Text kPages[] = {
    {"headrace", [](const CommandReference& program) { return manual_page(program, kVersion); }},
    {"headrace.toml", [](const CommandReference& program) { return config_page(program, kVersion); }},
    {"mount.headrace", [](const CommandReference& program) { return mount_helper_page(program, kVersion); }}};

// Adds a command whose argument chooses one of the texts, and prints that.
template <std::size_t Count>
Command& add_texts(Command& program, const CommandText& text, const Text (&texts)[Count], Option argument) {
  Command& command = add_command(program, text);
  const auto chosen = std::make_shared<std::string>(texts[0].name);
  argument.target = chosen.get();
  command.add(std::move(argument));
  command.run = [&program, &texts, chosen]() -> io::Status {
    std::string choices;
    for (const Text& each : texts) {
      if (*chosen == each.name) {
        fmt::print("{}", each.write(describe(program, "")));
        return {};
      }
      choices += (choices.empty() ? "" : "|") + std::string(each.name);
    }
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("there is no '{}'; choose one of {}", *chosen, choices));
  };
  return command;
}

}  // namespace

void add_completion_command(Command& program) {
  Command& command = add_texts(program, {kHelpCommands, "completion", "Print the completion script of a shell"},
                               kCompletions, {.name = "SHELL", .help = "Which shell", .required = true});
  command.footer = "Example:\n  source <(headrace completion bash)";
}

void add_manual_command(Command& program) {
  Command& command = add_texts(program, {kHelpCommands, "manual", "Print a manual page"}, kPages,
                               {.name = "PAGE", .help = "Which page", .shows_default = true});
  command.footer = "Example:\n  headrace manual headrace.toml | man -l -";
}

}  // namespace headrace::cli
