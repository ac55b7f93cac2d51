// SPDX-License-Identifier: Apache-2.0
// Completion for fish: one "complete" line for each word, under the condition that the command before it is the one
// that the word belongs to.
#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "headrace/cli/reference/reference.h"
#include "headrace/cli/reference/words.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kFishOrders = R"((headrace order --list 2>/dev/null | string match -r "^[a-z]\S*"))";
constexpr std::string_view kFishMountPoints =
    "(findmnt --noheadings --output TARGET --types fuse.headrace 2>/dev/null)";

// Inside '...' fish gives a meaning to \ and ' alone.
std::string quote(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

std::string line_of(const CommandReference& command, std::string_view rest) {
  return fmt::format("complete -c headrace -n {} {}\n", quote("__headrace_at " + quote(command.name)), rest);
}

// A mount point that is there already; all other arguments are files, which fish offers by itself.
std::string argument_line(const CommandReference& command, const OptionReference& option) {
  if (option.argument == "MOUNTPOINT" && command.name != "mount") {
    return line_of(command, fmt::format("-a {}", quote(kFishMountPoints)));
  }
  return option.choices.empty() ? "" : line_of(command, fmt::format("-f -a {}", quote(join(option.choices))));
}

std::string option_line(const CommandReference& command, const OptionReference& option) {
  if (option.names.empty()) return argument_line(command, option);
  std::string rest;
  for (const std::string& name : option.names) {
    rest += name.starts_with("--") ? "-l " + name.substr(2) + " " : "-s " + name.substr(1) + " ";
  }
  const bool is_order = option.names.front() == "--order";
  if (!option.argument.empty()) rest += "-r ";
  if (!option.choices.empty()) rest += fmt::format("-f -a {} ", quote(join(option.choices)));
  if (is_order) rest += fmt::format("-f -a {} ", quote(kFishOrders));
  return line_of(command, rest + "-d " + quote(option.description));
}

void append(const CommandReference& command, std::string& lines, std::string& names) {
  if (!command.name.empty()) names += " " + quote(command.name);
  for (const CommandReference& child : command.commands) {
    lines += line_of(command, fmt::format("-f -a {} -d {}", last_word(child.name), quote(child.description)));
  }
  for (const OptionReference& option : command.options) lines += option_line(command, option);
  for (const CommandReference& child : command.commands) append(child, lines, names);
}

}  // namespace

std::string fish_completion(const CommandReference& program) {
  std::string lines;
  std::string names;
  append(program, lines, names);
  // The command is the longest one that the words before the cursor name.
  return fmt::format(R"(# Completion of headrace(1) for fish.
set -g __headrace_commands{}
function __headrace_at
  set -l command ''
  for word in (commandline -opc)[2..-1]
    set -l longer (string trim -- "$command $word")
    contains -- $longer $__headrace_commands; and set command $longer
  end
  test "$command" = "$argv[1]"
end
{})",
                     names, lines);
}

}  // namespace headrace::cli
