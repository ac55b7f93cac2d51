// SPDX-License-Identifier: Apache-2.0
// headrace completion and headrace manual: the command line described by itself.
#include "headrace/cli/reference/reference.h"

#include <sstream>

#include <fmt/core.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/options/help_formatter.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/version.h"

namespace headrace::cli {
namespace {

OptionReference describe(const CLI::Option& option) {
  OptionReference reference;
  for (const std::string& name : option.get_lnames()) reference.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) reference.names.push_back("-" + name);
  reference.description = option.get_description();
  reference.default_value = default_text(option);
  reference.environment = option.get_envname();
  if (option.get_positional()) {
    reference.argument = option.get_name(true, false);
  } else if (option.get_type_size() != 0) {
    reference.argument = option.get_type_name();
  }
  if (reference.argument.find('|') != std::string::npos) {
    std::istringstream choices(reference.argument);
    for (std::string choice; std::getline(choices, choice, '|');) reference.choices.push_back(choice);
    reference.argument = "NAME";
  }
  return reference;
}

CommandReference describe(const CLI::App& command, const std::string& name) {
  CommandReference reference{.name = name, .description = command.get_description(), .notes = command.get_footer()};
  for (const CLI::Option* option : command.get_options()) reference.options.push_back(describe(*option));
  for (const CLI::App* child : command.get_subcommands([](const CLI::App* app) { return !app->get_group().empty(); })) {
    reference.commands.push_back(describe(*child, name.empty() ? child->get_name() : name + " " + child->get_name()));
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

// Adds an argument that chooses one of the texts, and prints that.
template <std::size_t Count>
CLI::Option* add_texts(CLI::App& app, CLI::App& command, Selected& selected, const Text (&texts)[Count],
                       const char* argument, const char* description) {
  const auto chosen = std::make_shared<std::string>(texts[0].name);
  std::string choices;
  for (const Text& text : texts) choices += (choices.empty() ? "" : "|") + std::string(text.name);
  CLI::Option* option = command.add_option(argument, *chosen, description)->type_name(choices);
  command.callback([&app, &selected, &texts, chosen, choices] {
    selected = [&app, &texts, chosen, choices]() -> io::Status {
      for (const Text& text : texts) {
        if (*chosen != text.name) continue;
        fmt::print("{}", text.write(describe(app, "")));
        return {};
      }
      return io::make_error(io::ErrorCode::kInvalidArgument,
                            fmt::format("there is no '{}'; choose one of {}", *chosen, choices));
    };
  });
  return option;
}

}  // namespace

void add_completion_command(CLI::App& app, Selected& selected) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print the completion script of a shell")->group(kHelpCommands);
  add_texts(app, *completion, selected, kCompletions, "SHELL", "Which shell")->required();
  completion->footer("Example:\n  source <(headrace completion bash)");
}

void add_manual_command(CLI::App& app, Selected& selected) {
  CLI::App* manual = app.add_subcommand("manual", "Print a manual page")->group(kHelpCommands);
  add_texts(app, *manual, selected, kPages, "PAGE", "Which page")->capture_default_str();
  manual->footer("Example:\n  headrace manual headrace.toml | man -l -");
}

}  // namespace headrace::cli
