// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/read_figures.h"

#include <cerrno>
#include <chrono>
#include <numeric>

#include <doctest/doctest.h>

namespace read_figures_test {

using headrace::fuse::ReadFigures;
using std::chrono::microseconds;

TEST_CASE("each wait counts where it belongs, at most its bound, and the last place takes what is longer than all") {
  ReadFigures figures;
  for (const microseconds waited :
       {microseconds(0), microseconds(100), microseconds(101), microseconds(40'000), microseconds(31'000'000)}) {
    figures.count_wait(waited);
  }
  const auto waits = figures.waits();
  REQUIRE(waits.size() == 15);
  CHECK(waits[0].count == 2);
  CHECK(waits[1].count == 1);
  CHECK_FALSE(waits.back().seconds_max.has_value());
  CHECK(waits.back().count == 1);
  for (const ReadFigures::Wait& wait : waits) {
    if (wait.seconds_max == 0.05) CHECK(wait.count == 1);
  }
  const auto add = [](std::uint64_t sum, const ReadFigures::Wait& wait) { return sum + wait.count; };
  CHECK(std::accumulate(waits.begin(), waits.end(), std::uint64_t{0}, add) == 5);
  CHECK(figures.wait_seconds() == doctest::Approx(31.040201));
}

TEST_CASE("failures count by the name of their errno, whatever it is") {
  ReadFigures figures;
  for (const int error : {EIO, ESTALE, EIO, 0, -5, 100'000}) figures.count_failure(error);
  const auto failures = figures.failures();
  REQUIRE(failures.size() == 3);
  CHECK(failures[0].reason == "unknown");
  CHECK(failures[0].count == 3);
  CHECK(failures[1].reason == "EIO");
  CHECK(failures[1].count == 2);
  CHECK(failures[2].reason == "ESTALE");
}

}  // namespace read_figures_test
