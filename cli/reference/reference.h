// SPDX-License-Identifier: Apache-2.0
// The command line as data. The shell completions and the manual page are made from it, so they never differ from what
// the program accepts.
//
//   std::string script = bash_completion(reference);
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

namespace headrace::cli {

struct OptionReference {
  std::vector<std::string> names;  // "--ram", "-w"; empty for an argument
  std::string argument;            // "SOURCE" of an argument, "SIZE" of an option's value; empty: a flag
  std::vector<std::string> choices;
  std::string description;
  std::string default_value;
  std::string environment;  // the variable that sets it
};

struct CommandReference {
  std::string name;  // "order set"; empty for the program
  std::string description;
  std::string notes;  // examples and more
  std::vector<OptionReference> options;
  std::vector<CommandReference> commands;
};

[[nodiscard]] std::string bash_completion(const CommandReference& program);
[[nodiscard]] std::string zsh_completion(const CommandReference& program);
[[nodiscard]] std::string fish_completion(const CommandReference& program);
// headrace(1) in roff.
[[nodiscard]] std::string manual_page(const CommandReference& program, const std::string& version);
// headrace.toml(5) and mount.headrace(8), from the options of "mount".
[[nodiscard]] std::string config_page(const CommandReference& program, const std::string& version);
[[nodiscard]] std::string mount_helper_page(const CommandReference& program, const std::string& version);

}  // namespace headrace::cli
