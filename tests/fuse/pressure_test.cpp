// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/internal/pressure.h"

#include <chrono>

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
    auto watch = PressureWatch::start(1 << 20, [](std::uint64_t) {});
    if (!watch) headrace::test::skip(watch.error().message());
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

}  // namespace
}  // namespace headrace::fuse
