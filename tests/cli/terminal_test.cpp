// SPDX-License-Identifier: Apache-2.0
// What a user sees in a window of 80 columns, and what is left of it after a Ctrl-C.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "process.h"

namespace terminal_test {

using headrace::test::contains;
using headrace::test::Outcome;
using headrace::test::skip;
using headrace::test::TempDir;
using headrace::test::Tool;
using headrace::test::wait_until;

namespace {

namespace fs = std::filesystem;

constexpr char kCtrlC = '\x03';

// Characters of the longest line as a terminal shows it, without escape sequences of the kind ESC [ ... letter.
std::size_t longest_line(const std::string& screen) {
  std::size_t longest = 0;
  std::size_t columns = 0;
  for (std::size_t i = 0; i < screen.size(); ++i) {
    const auto byte = static_cast<unsigned char>(screen[i]);
    if (byte == 0x1b) {
      i = screen.find_first_of("ABCDEFGHJKSTfhlm", i + 2);
      if (i == std::string::npos) break;
      continue;
    }
    if (byte == '\r' || byte == '\n') columns = 0;
    if (byte >= 0x20 && (byte & 0xC0) != 0x80) ++columns;
    longest = std::max(longest, columns);
  }
  return longest;
}

}  // namespace

TEST_CASE("on a terminal of 80 columns no line is broken within a word") {
  const Tool tool;
  const TempDir data;
  static_cast<void>(data.write("cat/1.jpg", "x"));
  const std::string source = data.path().string();
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"stat", source},
                                                    {"warm", source},
                                                    {"warm", source, "--ssd", tier, "--check"},
                                                    {"warm", source, "--ssd", tier, "--dry-run"},
                                                    {"warm", source, "--ssd", tier},
                                                    {"tier", "info", (tool.home() / "tier").string()},
                                                    {"simulate", source},
                                                    {"order", source, "--order", "torch-distributed:sed=0"}}) {
    CAPTURE(arguments[0]);
    const Outcome outcome = tool.start_on_terminal(arguments)->wait();
    CAPTURE(outcome.output);
    CHECK_FALSE(outcome.output.empty());
    CHECK(longest_line(outcome.output) <= 80);
  }
}

TEST_CASE("what is missing is red on a terminal, and nowhere else, and never where NO_COLOR is set") {
  const std::vector<std::string> doctor = {"doctor", "--tier", "/nonexistent/tier"};
  const std::string red = "\x1b[31m";
  Tool tool;
  tool.set("TERM=xterm");
  CHECK(contains(tool.start_on_terminal(doctor)->wait().output, red + "missing \x1b[0m"));
  CHECK_FALSE(contains(tool(doctor).output, "\x1b"));
  tool.set("NO_COLOR=1");
  CHECK_FALSE(contains(tool.start_on_terminal(doctor)->wait().output, "\x1b"));
  Tool dumb;
  dumb.set("TERM=dumb");
  CHECK_FALSE(contains(dumb.start_on_terminal(doctor)->wait().output, "\x1b"));
}

TEST_CASE("stat --watch keeps within its window, follows a resize and gives the terminal back") {
  if (::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs /dev/fuse");
  const Tool tool;
  const TempDir data;
  static_cast<void>(data.write("train/cat/1.jpg", "x"));
  fs::create_directory(data.path() / "mnt");
  const std::string point = (data.path() / "mnt").string();
  REQUIRE(tool({"mount", (data.path() / "train").string(), point, "--ram", "64M"}).status == 0);
  struct Unmount {
    const Tool& tool;
    std::string point;
    ~Unmount() { static_cast<void>(tool({"unmount", "--force", point})); }
  } unmount{tool, point};

  const auto watch = tool.start_on_terminal({"stat", point, "--watch"});
  REQUIRE(wait_until([&] { return contains(watch->screen(), "page cache ["); }));
  CHECK(contains(watch->screen(), "\x1b[?1049h"));
  CHECK(longest_line(watch->screen()) <= 80);

  watch->resize({.columns = 40, .rows = 10});
  watch->forget();
  REQUIRE(wait_until([&] { return std::count(watch->screen().begin(), watch->screen().end(), 'H') >= 2; }));
  watch->forget();  // the picture that was being drawn at the old size
  REQUIRE(wait_until([&] { return contains(watch->screen(), "page cache ["); }));
  CHECK(longest_line(watch->screen()) <= 40);

  watch->type(kCtrlC);
  const Outcome outcome = watch->wait();
  CHECK(outcome.status == 0);                               // the ordinary way to end it
  CHECK(outcome.output.ends_with("\x1b[?25h\x1b[?1049l"));  // cursor shown, first screen back
}

TEST_CASE("what cannot be written is no success, in little as in much, but for a pipe that nobody reads") {
  const Tool tool;
  const TempDir many;
  for (int i = 0; i < 200; ++i) many.write(std::string(100, 'x') + std::to_string(i) + ".jpg", "");
  const std::string order = "order --order sequential --listing sorted " + many.path().string();
  for (const std::string& command : {std::string("cache ls"), std::string("manual"), order}) {  // and beyond a buffer
    CAPTURE(command);
    const std::string words = std::string("exec " HEADRACE_BINARY " ") + command;
    const Outcome full = tool.start_shell(words + " > /dev/full")->wait();
    CHECK(full.status == 1);
    CHECK(contains(full.errors, "No space left on device"));
    CHECK(std::count(full.errors.begin(), full.errors.end(), '\n') == 1);
    // A pipe that is read no longer, with SIGPIPE ignored, as a parent may leave it.
    const std::string pipe = (tool.home() / ("pipe of " + command.substr(0, command.find(' ')))).string();
    const std::string open = "trap '' PIPE; mkfifo '" + pipe + "'; exec 3<>'" + pipe + "' 4>'" + pipe + "' 3<&-; ";
    const Outcome closed = tool.start_shell(open + words + " >&4")->wait();
    CHECK(closed.status == 0);
    CHECK(closed.errors.empty());
  }
}

}  // namespace terminal_test
