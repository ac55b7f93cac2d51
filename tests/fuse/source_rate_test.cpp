// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/source_rate.h"

#include <cstdint>

#include <doctest/doctest.h>

namespace headrace::fuse::source_rate_test {
namespace {

using std::chrono::seconds;

constexpr SourceRate::Time kNow{std::chrono::hours(1)};

TEST_CASE("source rate: the next read is due when the one before is paid for, and rest is not saved up") {
  SourceRate rate;
  rate.charge(1'000, kNow);
  CHECK(rate.is_due(kNow));  // no limit
  rate.set(100);
  rate.charge(1'000, kNow);
  CHECK_FALSE(rate.is_due(kNow + seconds(9)));
  CHECK(rate.is_due(kNow + seconds(10)));
  rate.charge(100, kNow + seconds(60));
  CHECK(rate.due() == kNow + seconds(61));
  rate.charge(0, kNow + seconds(60));  // a tier had it
  CHECK(rate.due() == kNow + seconds(61));
}

TEST_CASE("source rate: another limit begins at once, and the smallest one has an end") {
  SourceRate rate;
  rate.set(1);
  rate.charge(UINT64_MAX, kNow);
  CHECK(rate.due() == kNow + std::chrono::hours(24 * 365));
  rate.set(1'000);
  CHECK(rate.is_due(kNow));
  rate.set(0);
  CHECK_FALSE(rate.is_limited());
}

}  // namespace
}  // namespace headrace::fuse::source_rate_test
