// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "headrace/cli/reference/reference.h"
#include "headrace/cli/reference/words.h"

namespace headrace::cli {
namespace {

// Every command, at any depth, with the words that lead to it.
void collect(const CommandReference& command, std::vector<const CommandReference*>& all) {
  all.push_back(&command);
  for (const CommandReference& child : command.commands) collect(child, all);
}

// The words that may follow the command: option names and the commands below it.
std::string words_after(const CommandReference& command) {
  std::string words;
  for (const CommandReference& child : command.commands) words += last_word(child.name) + " ";
  for (const OptionReference& option : command.options) {
    for (const std::string& name : option.names) words += name + " ";
  }
  if (!words.empty()) words.pop_back();
  return words;
}

// Makes text safe inside '...[...]' of a zsh specification.
std::string escape_zsh(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

std::string zsh_specification(const OptionReference& option) {
  const std::string action = option.choices.empty() ? "_files" : "(" + join(option.choices) + ")";
  if (option.names.empty()) return fmt::format("':{}:_files'", escape_zsh(option.argument));
  std::string specifications;
  for (const std::string& name : option.names) {
    const std::string value = option.argument.empty() ? "" : fmt::format(":{}:{}", escape_zsh(option.argument), action);
    specifications +=
        fmt::format("{}'{}[{}]{}'", specifications.empty() ? "" : " ", name, escape_zsh(option.description), value);
  }
  return specifications;
}

// What only the machine knows when it is asked for: its mounts, and the orders of the program that is installed.
constexpr std::string_view kMountPoints = "findmnt --noheadings --output TARGET --types fuse.headrace 2>/dev/null";
constexpr std::string_view kOrders =
    R"("${COMP_WORDS[0]}" order --list 2>/dev/null | sed -n 's/^\([a-z][^ ]*\) .*/\1/p')";

// Whether the command works on a mount that is there already.
bool wants_mount(const CommandReference& command) {
  const auto names_one = [](const OptionReference& option) {
    return option.names.empty() && option.argument == "MOUNTPOINT";
  };
  return command.name != "mount" && std::any_of(command.options.begin(), command.options.end(), names_one);
}

// bash's case for the value of an option; empty where any word will do.
std::string bash_values(const CommandReference& command, const OptionReference& option) {
  if (option.names.empty()) return {};
  const std::string& name = option.names.front();
  if (name == "--order") return fmt::format("    '{} {}') words=$({}) ;;\n", command.name, name, kOrders);
  if (option.choices.empty()) return {};
  return fmt::format("    '{} {}') words='{}' ;;\n", command.name, name, join(option.choices));
}

}  // namespace

std::string bash_completion(const CommandReference& program) {
  std::vector<const CommandReference*> all;
  collect(program, all);
  std::string words;
  std::string choices;
  std::string names;
  for (const CommandReference* command : all) {
    const std::string mounts = wants_mount(*command) ? fmt::format("\" $({})\"", kMountPoints) : "";
    words += fmt::format("    '{}') words='{}'{} ;;\n", command->name, words_after(*command), mounts);
    if (!command->name.empty()) names += fmt::format("{}'{}'", names.empty() ? "" : " | ", command->name);
    for (const OptionReference& option : command->options) choices += bash_values(*command, option);
  }
  // The command is the longest one that the words before the cursor name. bash itself offers file names.
  return fmt::format(R"(# Completion of headrace(1) for bash.
_headrace() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command='' words='' word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "${{command:+$command }}$word" in
    {}) command="${{command:+$command }}$word" ;;
    esac
  done
  case $command in
{}  esac
  case "$command $previous" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -o bashdefault -F _headrace headrace
)",
                     names, words, choices);
}

std::string zsh_completion(const CommandReference& program) {
  std::vector<const CommandReference*> all;
  collect(program, all);
  std::string cases;
  for (const CommandReference* command : all) {
    if (command->name.empty()) continue;
    std::string specifications;
    for (const OptionReference& option : command->options) specifications += " " + zsh_specification(option);
    if (!command->commands.empty()) {
      specifications += fmt::format(" ':command:({})'", words_after(CommandReference{.commands = command->commands}));
    }
    cases += fmt::format("    '{}') _arguments{} '*:file:_files' ;;\n", command->name, specifications);
  }
  std::string descriptions;
  for (const CommandReference& command : program.commands) {
    descriptions += fmt::format("    '{}:{}'\n", command.name, escape_zsh(command.description));
  }
  return fmt::format(R"(#compdef headrace
# Completion of headrace(1) for zsh.
_headrace() {{
  local -a commands=(
{})
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
_headrace "$@"
)",
                     descriptions, cases);
}

}  // namespace headrace::cli
