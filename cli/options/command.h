// SPDX-License-Identifier: Apache-2.0
// The command line as a table: what each command and each of its options is called, says and sets. The parser, the help
// pages, the config file, the manual pages and the completions are all made from it.
//
//   struct StatArguments { ... };                                   // all in commands/stat.cpp
//   io::Status run_stat(const StatArguments& arguments);
//   void add_stat_command(Command& program);                        // declared in commands/commands.h
//
// A run function prints its result to stdout and what is only for people (progress, warnings) to stderr; on success it
// prints nothing else. An Error is one clear line. kInvalidArgument without an errno means that the command line itself
// makes no sense (exit status 2).
// The table is plain data, so that what includes this compiles quickly. Only options/parser.cpp includes CLI11.
// Thread-safety: one command per process, on its main thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cli {

// What the chosen command will do.
using Selected = std::function<io::Status()>;

struct HelpPage {};  // --help
struct VersionLine {
  std::string text;
};
// What an option does: it prints something, calls a function, or sets a variable. A flag sets a bool. A list takes a
// value each time that its option is given, and an argument that is a list takes many words.
using Target = std::variant<HelpPage, VersionLine, void (*)(), bool*, std::string*, std::filesystem::path*,
                            std::uint32_t*, std::uint64_t*, std::vector<std::string>*,
                            std::vector<std::filesystem::path>*, std::vector<std::uint64_t>*>;

struct Option {
  std::string_view name;  // "--watch" or "-n"; without a dash, as in "SOURCE", it is an argument
  char letter = 0;        // 'w': -w is the same
  Target target;
  std::string_view value{};  // what help writes for the value, "SIZE", or the choices there are, "path|index"
  std::string_view group = "Options";
  std::string help{};
  bool required = false;
  bool shows_default = false;                // help shows what the variable has at first
  bool parts_at_commas = false;              // a,b are two values of a list
  std::vector<std::string_view> needs{};     // options without which this one makes no sense
  std::vector<std::string_view> excludes{};  // options with which it makes none; they need not name this one
  std::string environment{};                 // the variable that sets it, too

  std::string default_text{};        // what `shows_default` shows; Command::add() fills it
  std::vector<std::string> given{};  // the values that it was given, wherever; empty: none

  [[nodiscard]] bool is_argument() const { return name.front() != '-'; }
  [[nodiscard]] bool is_flag() const;
  [[nodiscard]] bool is_list() const;
  [[nodiscard]] std::vector<std::string> choices() const;  // those of `value`
  // "--watch" is "watch"; empty where there is none.
  [[nodiscard]] std::string_view long_name() const { return name.starts_with("--") ? name.substr(2) : ""; }
  // Sets the variable of what is no flag. Errors: kInvalidArgument; the text names the option.
  [[nodiscard]] io::Status take(const std::vector<std::string>& values);
};

struct Command {
  // Has --help from the start.
  Command(std::string_view group, std::string_view name, std::string_view description);

  std::string_view name;
  std::string_view description;
  std::string_view group;  // the heading that help lists it under; empty: it does not
  std::string footer;
  std::string_view alias{};  // a second name, which help does not list
  std::vector<Option> options;
  std::list<Command> commands;  // below this one
  bool needs_command = false;   // one of these must be chosen
  // Is called when the command line has set its options, and takes them from elsewhere, too. Its errors are those of
  // the command line.
  std::function<io::Status()> settle{};
  Selected run{};

  void add(Option option);
};

// "a,,b" has three parts at its commas, "a," has one.
[[nodiscard]] std::vector<std::string> split_at(char separator, std::string_view text);

}  // namespace headrace::cli
