// SPDX-License-Identifier: Apache-2.0
// What the command line says, to the letter: help pages, errors, manual pages and completions. tests/cli/data/ has
// transcripts: a line that begins with "$ " is run by a shell; what it writes follows, then its exit status.
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "headrace/cli/version.h"

#include "process.h"

namespace command_line_test {

using headrace::test::read_file;
using headrace::test::Tool;

namespace {

constexpr std::string_view kPrompt = "$ ";

std::string in_quotes(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

// Runs the commands of a transcript again, in one shell and one folder.
std::string play(const std::string& transcript) {
  const Tool tool;
  std::string script = "headrace() { " + in_quotes(HEADRACE_BINARY) + " \"$@\"; }; cd \"$HOME\"\n";
  std::istringstream lines(transcript);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kPrompt)) continue;
    script += "printf '%s\\n' " + in_quotes(line) + "\n(" + line.substr(kPrompt.size()) +
              ") 2>&1 </dev/null\nprintf '[%s]\\n' $?\n";
  }
  std::string output = tool.start_shell(script)->wait().output;
  const std::string version = std::string("headrace ") + headrace::cli::kVersion;  // a release changes it
  for (std::size_t at = 0; (at = output.find(version, at)) != std::string::npos;) {
    output.replace(at, version.size(), "headrace VERSION");
  }
  return output;
}

void check_transcript(const std::string& name) {
  const std::string file = HEADRACE_SOURCE "/tests/cli/data/" + name;
  const std::string expected = read_file(file);
  REQUIRE_FALSE(expected.empty());
  const std::string now = play(expected);
  if (now == expected) return;
  const std::string renewed = HEADRACE_REFERENCE "/" + name;
  std::ofstream(renewed, std::ios::binary) << now;
  FAIL_CHECK("the command line says something else; see diff ", file, " ", renewed, " and, where that is meant, cp ",
             renewed, " ", file);
}

}  // namespace

TEST_CASE("every command's help page is what it was") {
  check_transcript("help.txt");
}

TEST_CASE("a wrong command line, environment or config file is refused in the words that it was") {
  check_transcript("errors.txt");
}

TEST_CASE("manual pages and completions are what they were") {
  check_transcript("pages.txt");
}

}  // namespace command_line_test
