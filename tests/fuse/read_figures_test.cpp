// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/read_figures.h"

#include <cerrno>
#include <chrono>
#include <numeric>

#include <doctest/doctest.h>

using headrace::fuse::MountStats;
using headrace::fuse::ReadFigures;
using headrace::fuse::WaitCount;
using std::chrono::microseconds;

TEST_CASE("each wait counts where it belongs, at most its bound, and the last place takes what is longer than all") {
  ReadFigures figures;
  for (const microseconds waited :
       {microseconds(0), microseconds(100), microseconds(101), microseconds(40'000), microseconds(31'000'000)}) {
    figures.count_wait(waited);
  }
  MountStats stats;
  figures.add_stats(stats);
  REQUIRE(stats.read_waits.size() == 15);
  CHECK(stats.read_waits[0].count == 2);
  CHECK(stats.read_waits[1].count == 1);
  CHECK_FALSE(stats.read_waits.back().seconds_max.has_value());
  CHECK(stats.read_waits.back().count == 1);
  for (const WaitCount& wait : stats.read_waits) {
    if (wait.seconds_max == 0.05) CHECK(wait.count == 1);
  }
  const auto add = [](std::uint64_t sum, const WaitCount& wait) { return sum + wait.count; };
  CHECK(std::accumulate(stats.read_waits.begin(), stats.read_waits.end(), std::uint64_t{0}, add) == 5);
  CHECK(stats.read_wait_seconds == doctest::Approx(31.040201));
}

TEST_CASE("failures count by the name of their errno, whatever it is") {
  ReadFigures figures;
  for (const int error : {EIO, ESTALE, EIO, 0, -5, 100'000}) figures.count_failure(error);
  MountStats stats;
  figures.add_stats(stats);
  CHECK(stats.read_failures == 6);
  REQUIRE(stats.read_failure_reasons.size() == 3);
  CHECK(stats.read_failure_reasons[0].reason == "unknown");
  CHECK(stats.read_failure_reasons[0].count == 3);
  CHECK(stats.read_failure_reasons[1].reason == "EIO");
  CHECK(stats.read_failure_reasons[1].count == 2);
  CHECK(stats.read_failure_reasons[2].reason == "ESTALE");
}
