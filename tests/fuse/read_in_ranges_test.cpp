// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/read_in_ranges.h"

#include <doctest/doctest.h>

namespace headrace::fuse::read_in_ranges_test {
namespace {

constexpr PageRange kFirstPage = {.offset = 0, .length = 4096};

TEST_CASE("a part that was read again goes after one that was read once, though it was the newest then") {
  ReadInRanges ranges;
  ranges.add(1, kFirstPage);
  ranges.add(1, kFirstPage);
  ranges.add(2, kFirstPage);
  CHECK(ranges.bytes() == 2 * 4096);
  CHECK(ranges.take_oldest().sample == 2);
  CHECK(ranges.take_oldest().sample == 1);
  CHECK(ranges.slot_count() == 0);
  CHECK(ranges.bytes() == 0);
}

TEST_CASE("parts of files that were forgotten are not given out, however many there were") {
  ReadInRanges ranges;
  ranges.add(1, kFirstPage);
  for (unsigned i = 0; i < 10'000; ++i) {
    ranges.add(2, {.offset = 0, .length = 3 << 20});
    ranges.forget(2);
  }
  ranges.add(3, kFirstPage);
  CHECK(ranges.take_oldest().sample == 1);
  CHECK(ranges.take_oldest().sample == 3);
  CHECK(ranges.slot_count() == 0);
}

}  // namespace
}  // namespace headrace::fuse::read_in_ranges_test
