// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/progress.h"

#include <cstdio>
#include <string>

#include <doctest/doctest.h>

namespace progress_test {

using headrace::cli::Amount;
using headrace::cli::format_progress;
using headrace::cli::Progress;

namespace {
constexpr Amount kTotal{.samples = 4000, .bytes = 400 << 20};
constexpr Amount kHalf{.samples = 2000, .bytes = 200 << 20};
}  // namespace

TEST_CASE("a bar shows the part done, the rate and the time left") {
  const std::string line = format_progress("warming", kHalf, kTotal, 10, 80);
  CHECK(line.find("[######") != std::string::npos);
  CHECK(line.find("50%") != std::string::npos);
  CHECK(line.find("2000/4000") != std::string::npos);
  CHECK(line.find("20.0 MiB/s") != std::string::npos);
  CHECK(line.find("ETA 0:10") != std::string::npos);
}

TEST_CASE("a finished bar shows the time taken") {
  const std::string line = format_progress("warming", kTotal, kTotal, 65, 80);
  CHECK(line.find("100%") != std::string::npos);
  CHECK(line.find("in 1:05") != std::string::npos);
  CHECK(line.find("ETA") == std::string::npos);
}

TEST_CASE("no bar is wider than its terminal, and nothing done or nothing to do is no trouble") {
  for (std::size_t columns = 1; columns < 200; ++columns) {
    CAPTURE(columns);
    CHECK(format_progress("warming", kHalf, kTotal, 10, columns).size() <= columns);
    CHECK(format_progress("warming", {}, kTotal, 0, columns).size() <= columns);
    CHECK(format_progress("warming", {}, {}, 0, columns).size() <= columns);
    CHECK(format_progress("warming", {.samples = 9000, .bytes = 900 << 20}, kTotal, 1, columns).size() <= columns);
  }
}

TEST_CASE("into a file go plain lines without control characters") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  Progress progress(file, "warming", kTotal);
  for (int i = 0; i < 1000; ++i) progress.update(kHalf);
  progress.finish(kTotal);
  std::rewind(file);
  char text[4096] = {};
  const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  const std::string written(text, length);
  CHECK(written.find('\r') == std::string::npos);
  CHECK(written.find('\x1b') == std::string::npos);
  CHECK(written.find("100%") != std::string::npos);
  CHECK(written.back() == '\n');
  CHECK(written.find('\n') == written.size() - 1);  // far too quick for a line in between
}

}  // namespace progress_test
