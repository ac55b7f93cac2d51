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

}  // namespace

void add_completion_command(CLI::App& app, Selected& selected) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print the completion script of a shell")->group(kHelpCommands);
  const auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  completion->footer("Example:\n  source <(headrace completion bash)");
  completion->callback([&app, &selected, shell] {
    selected = [&app, shell]() -> io::Status {
      const CommandReference reference = describe(app, "");
      fmt::print("{}", *shell == "bash" ? bash_completion(reference) : zsh_completion(reference));
      return {};
    };
  });
}

void add_manual_command(CLI::App& app, Selected& selected) {
  CLI::App* manual = app.add_subcommand("manual", "Print the manual page")->group(kHelpCommands);
  manual->footer("Example:\n  headrace manual | man -l -");
  manual->callback([&app, &selected] {
    selected = [&app]() -> io::Status {
      fmt::print("{}", manual_page(describe(app, ""), kVersion));
      return {};
    };
  });
}

}  // namespace headrace::cli
