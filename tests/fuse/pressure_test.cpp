// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/internal/pressure.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

namespace headrace::fuse {
namespace {

TEST_CASE("the budget falls by quarters to an eighth and comes back in sixteenths") {
  PressureBudget budget(1600);
  CHECK(budget.bytes() == 1600);
  CHECK_FALSE(budget.on_quiet());
  CHECK(budget.on_pressure());
  CHECK(budget.bytes() == 1200);
  for (int i = 0; i < 20; ++i) budget.on_pressure();
  CHECK(budget.bytes() == 200);
  CHECK_FALSE(budget.on_pressure());
  CHECK(budget.on_quiet());
  CHECK(budget.bytes() == 300);
  for (int i = 0; i < 20; ++i) budget.on_quiet();
  CHECK(budget.bytes() == 1600);
}

TEST_CASE("watching for pressure ends at once when it is no longer wanted") {
  const auto start = std::chrono::steady_clock::now();
  {
    auto watch = PressureWatch::start(1 << 20, {.is_losing = [] { return false; }, .on_change = [](std::uint64_t) {}});
    REQUIRE(watch.has_value());
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

TEST_CASE("dropped pages shrink the budget where nothing else tells of a shortage") {
  std::atomic<std::uint64_t> budget = 0;
  auto watch = PressureWatch::start(
      1600, {.is_losing = [] { return true; }, .on_change = [&](std::uint64_t bytes) { budget = bytes; }});
  REQUIRE(watch.has_value());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (budget == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(budget == 1200);
}

}  // namespace
}  // namespace headrace::fuse
