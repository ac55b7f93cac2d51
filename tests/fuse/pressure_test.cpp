// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/pressure.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "support/temp_dir.h"

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

// What a watch reports while pushed pages are dropped all the time.
struct Reports {
  std::atomic<std::uint64_t> budget = 0;
  std::atomic<unsigned> dropped = 0;
};

std::unique_ptr<PressureWatch> watch_losses(Reports& reports, bool is_near_limit) {
  auto watch = PressureWatch::start(1600, {.is_losing = [] { return true; },
                                           .on_change = [&](std::uint64_t bytes) { reports.budget = bytes; },
                                           .on_dropped = [&] { ++reports.dropped; },
                                           .is_near_limit = [=] { return is_near_limit; }});
  REQUIRE(watch.has_value());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (reports.budget == 0 && reports.dropped == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return std::move(*watch);
}

TEST_CASE("dropped pages shrink the budget where the memory cgroup is full") {
  Reports reports;
  const auto watch = watch_losses(reports, true);
  CHECK(reports.budget == 1200);
  CHECK(reports.dropped == 0);
}

TEST_CASE("dropped pages do not shrink the budget where nobody is short of memory") {
  Reports reports;
  const auto watch = watch_losses(reports, false);
  if (watch->no_psi()) headrace::test::skip("no PSI");
  if (reports.budget != 0) headrace::test::skip("this machine is short of memory");
  CHECK(reports.dropped == 1);
}

}  // namespace
}  // namespace headrace::fuse
