// SPDX-License-Identifier: Apache-2.0
// A million times the same error is a few lines and a count.
#include "headrace/io/internal/log_limit.h"

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/io/log.h"

#include "support/temp_dir.h"

namespace log_limit_test {

using headrace::io::LogLimit;
using namespace std::chrono_literals;

namespace {

const LogLimit::Clock::time_point kStart{};
constexpr std::string_view kFailed = "read {} failed";
constexpr std::string_view kOther = "something else";

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("of a kind of line a few are let through per period, and the others are counted") {
  LogLimit limit({.lines = 3, .period = 10s});
  int written = 0;
  for (int i = 0; i < 1'000'000; ++i) written += limit.admit(kFailed, kStart + i * 1us) ? 1 : 0;
  CHECK(written == 3);
  CHECK(limit.admit(kOther, kStart + 1s));  // other lines are not held back
  CHECK(limit.take_left_out(kStart + 9s).empty());
  const auto left_out = limit.take_left_out(kStart + 10s);
  REQUIRE(left_out.size() == 1);
  CHECK(left_out[0].kind == kFailed);
  CHECK(left_out[0].lines == 999'997);
  CHECK(limit.take_left_out(kStart + 30s).empty());  // each is told once
  CHECK(limit.admit(kFailed, kStart + 11s));
}

TEST_CASE("lines that come now and then are all written") {
  LogLimit limit({.lines = 2, .period = 10s});
  for (int i = 0; i < 1000; ++i) CHECK(limit.admit(kFailed, kStart + i * 5s));
  CHECK(limit.take_left_out(kStart + 10'000s).empty());
}

TEST_CASE("a period that left lines out goes on until they are told") {
  LogLimit limit({.lines = 1, .period = 10s});
  CHECK(limit.admit(kFailed, kStart));
  CHECK_FALSE(limit.admit(kFailed, kStart + 1s));
  CHECK_FALSE(limit.admit(kFailed, kStart + 20s));  // nobody has asked yet: the count is not lost
  REQUIRE(limit.take_left_out(kStart + 20s).size() == 1);
  CHECK(limit.admit(kFailed, kStart + 21s));
}

TEST_CASE("the log of a flood is short") {
  const headrace::test::TempDir folder;
  const std::filesystem::path file = folder.path() / "log";
  REQUIRE(headrace::io::set_log_file(file.c_str()));
  for (int i = 0; i < 100'000; ++i) headrace::io::log_error("sample {} cannot be read", i);
  headrace::io::log_error("and something else");
  REQUIRE(headrace::io::set_log_file("/dev/stderr"));
  const std::vector<std::string> lines = lines_of(file);
  CHECK(lines.size() > 20);
  CHECK(lines.size() < 200);  // a slow machine may need more than one period
  CHECK(lines.front().find("sample 0 cannot be read") != std::string::npos);
  CHECK(lines.back().find("something else") != std::string::npos);
}

}  // namespace log_limit_test
