// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/parser.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cli/options/config_file.h"

#include "support/temp_dir.h"

namespace parser_test {

using headrace::cli::apply_config_file;
using headrace::cli::Command;
using headrace::cli::parse;
using headrace::cli::parse_options;
using headrace::cli::split_at;
using headrace::cli::VersionLine;
using headrace::test::TempDir;
using Words = std::vector<std::string>;

namespace {

// A program with "go", whose options have a variable of each kind.
struct Program {
  Command table{"", "prog", "does things"};
  Command* go = nullptr;
  bool flag = false;
  std::string text = "before";
  std::uint32_t small = 7;
  std::vector<std::string> hosts;
  std::vector<std::uint64_t> numbers;
  Words settings;
  int runs = 0;

  Program() {
    table.needs_command = true;
    table.add({.name = "--version", .target = VersionLine{"prog 1"}});
    go = &table.commands.emplace_back("Commands", "go", "goes");
    go->add({.name = "NAME=VALUE", .target = &settings});
    go->add({.name = "--flag", .letter = 'f', .target = &flag});
    go->add({.name = "--text", .target = &text, .value = "TEXT", .shows_default = true, .excludes = {"--flag"}});
    go->add({.name = "--small", .target = &small});
    go->add({.name = "--hosts", .target = &hosts, .parts_at_commas = true});
    go->add({.name = "--number", .target = &numbers});
    go->run = [this]() -> headrace::io::Status {
      ++runs;
      return {};
    };
  }
  // What is wrong with the words; empty: the command ran.
  std::string run(const Words& words) {
    const auto selected = parse(table, words);
    if (!selected) return selected.error().context;
    CHECK((*selected)().has_value());
    return {};
  }
};

}  // namespace

TEST_CASE("words set the variables of the table, and options know what they were given") {
  Program program;
  CHECK(program.run({"go", "ram=1G", "--hosts", "a,,b", "-f", "--hosts=c", "--number", "4", "--number=5", "x=2"})
            .empty());
  CHECK(program.runs == 1);
  CHECK(program.settings == Words{"ram=1G", "x=2"});
  CHECK(program.flag);
  CHECK(program.text == "before");
  CHECK(program.hosts == Words{"a", "b", "c"});
  CHECK(program.numbers == std::vector<std::uint64_t>{4, 5});
  const auto given = [&](std::string_view name) {
    for (const auto& option : program.go->options) {
      if (option.name == name) return option.given;
    }
    return Words{"no such option"};
  };
  CHECK(given("--flag") == Words{"true"});
  CHECK(given("--hosts") == Words{"a", "b", "c"});
  CHECK(given("--text").empty());
}

TEST_CASE("wrong words are explained with the names that people know") {
  CHECK(Program().run({}) == "a command is missing: go; see prog --help");
  CHECK(Program().run({"gi"}) == "there is no command 'gi', did you mean go? see prog --help");
  CHECK(Program().run({"go", "--tex"}) == "there is no option --tex, did you mean --text? see prog go --help");
  CHECK(Program().run({"go", "--text"}) == "--text needs a value; see prog go --help");
  CHECK(Program().run({"go", "--flag=so"}) == "--flag = so makes no sense; see prog go --help");
  CHECK(Program().run({"go", "--number", "1", "--number", "-1"}) ==
        "--number = 1,-1 makes no sense; see prog go --help");
  CHECK(Program().run({"go", "--small", "4294967296"}) ==
        "--small: '4294967296' is not a whole number from 0 on; see prog go --help");
  CHECK(Program().run({"go", "--small", "010"}) ==
        "--small: '010' is not a whole number from 0 on; see prog go --help");
  CHECK(Program().run({"go", "--hosts", ","}) == "--hosts needs a value; see prog go --help");
  Program required;
  required.go->options[1].required = true;
  CHECK(required.run({"go"}) == "NAME=VALUE is required; see prog go --help");
}

TEST_CASE("a wrong name in one command does not stop the others, nor --version") {
  Program program;
  Command& broken = program.table.commands.emplace_back("Commands", "broken", "has an option that CLI11 refuses");
  broken.add({.name = "--two words", .target = &program.flag});
  CHECK(parse(program.table, {"--version"}).has_value());
  CHECK(program.run({"go"}).empty());
  CHECK(program.run({"broken"}).starts_with("this program's own options are wrong: "));
}

TEST_CASE("what the environment sets wrongly concerns only the command that has the option") {
  Program program;
  program.table.commands.emplace_back("Commands", "other", "goes elsewhere").run = program.go->run;
  for (auto& option : program.go->options) {
    if (option.name == "--small") option.environment = "PARSER_TEST_SMALL";
  }
  REQUIRE(::setenv("PARSER_TEST_SMALL", "many", 1) == 0);
  CHECK(program.run({"other"}).empty());
  CHECK(program.run({"go"}) == "--small: 'many' is not a whole number from 0 on; see prog go --help");
  REQUIRE(::setenv("PARSER_TEST_SMALL", "3", 1) == 0);
  CHECK(program.run({"go"}).empty());
  CHECK(program.small == 3);
  ::unsetenv("PARSER_TEST_SMALL");
}

TEST_CASE("a config file sets what the command line has left") {
  Program program;
  const TempDir folder;
  const std::string file =
      folder.write("x.toml", "text = 'file'\nsmall = 9\nflag = true\nhosts = ['a,b', 'c']\n").string();
  REQUIRE(parse_options(*program.go, {"--small", "8"}).has_value());
  REQUIRE(apply_config_file(*program.go, file).has_value());
  CHECK(program.text == "file");
  CHECK(program.small == 8);
  CHECK(program.flag);
  CHECK(program.hosts == Words{"a", "b", "c"});
  const std::string wrong = folder.write("x.toml", "flag = 1\n").string();
  CHECK(apply_config_file(*Program().go, wrong).error().context == file + ": flag: write flag = true or false");
}

TEST_CASE("a text is split as people count its parts") {
  CHECK(split_at(',', "a,,b") == Words{"a", "", "b"});
  CHECK(split_at(',', "a,") == Words{"a"});
  CHECK(split_at('|', "a") == Words{"a"});
  CHECK(split_at(',', "") == Words{""});
}

}  // namespace parser_test
