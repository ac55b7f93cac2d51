// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/opening_recorder.h"

#include <cstdint>

#include <doctest/doctest.h>

#include "headrace/cache/opening_profile.h"

namespace headrace::fuse::opening_recorder_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr OpeningRecorder::Time kStart{};

TEST_CASE("headers that lie apart are recorded one by one, for as long as they go upwards") {
  OpeningRecorder recorder(kStart);
  OpeningRecorder::Time now = kStart;
  for (std::uint64_t batch = 0; batch < 1000; ++batch) {
    now += milliseconds(5);
    REQUIRE(recorder.note({batch * kMiB, kPage}, now));
  }
  REQUIRE(recorder.ranges().size() == 1000);
  CHECK(recorder.ranges()[10].offset == 10 * kMiB);
  CHECK(recorder.ranges()[10].length == kPage);
  CHECK(recorder.note({999 * kMiB, kPage}, now));        // READs may come out of their order
  CHECK_FALSE(recorder.note({500 * kMiB, kPage}, now));  // but this is a record
}

TEST_CASE("in its first seconds an opening reads anywhere") {
  OpeningRecorder recorder(kStart);
  CHECK(recorder.note({500 * kMiB, kPage}, kStart));
  CHECK(recorder.note({100 * kMiB, kPage}, kStart + milliseconds(100)));
  CHECK(recorder.note({300 * kMiB, kPage}, kStart + milliseconds(1900)));
  CHECK_FALSE(recorder.note({200 * kMiB, kPage}, kStart + milliseconds(2100)));
  REQUIRE(recorder.ranges().size() == 3);
  CHECK(recorder.ranges()[1].offset == 100 * kMiB);
}

TEST_CASE("an opening is over when nothing was read for long") {
  OpeningRecorder recorder(kStart);
  CHECK(recorder.note({0, kPage}, kStart));
  CHECK(recorder.note({kMiB, kPage}, kStart + seconds(9)));
  CHECK_FALSE(recorder.note({2 * kMiB, kPage}, kStart + seconds(20)));
}

TEST_CASE("what lies together is one range, up to a size") {
  OpeningRecorder recorder(kStart);
  REQUIRE(recorder.note({0, kPage}, kStart));
  REQUIRE(recorder.note({4 * kPage, kPage}, kStart));
  REQUIRE(recorder.note({2 * kPage, kPage}, kStart));
  REQUIRE(recorder.ranges().size() == 1);
  CHECK(recorder.ranges()[0].length == 5 * kPage);
  for (std::uint64_t page = 5; page < 200; page += 4) REQUIRE(recorder.note({page * kPage, kPage}, kStart));
  CHECK(recorder.ranges().size() > 1);
  for (const cache::ChunkRange& range : recorder.ranges()) CHECK(range.length <= cache::OpeningProfile::kRangeBytesMax);
}

TEST_CASE("of a stream only the beginning is recorded") {
  OpeningRecorder recorder(kStart);
  for (std::uint64_t offset = 0; offset < 100 * kMiB; offset += 128 << 10)
    REQUIRE(recorder.note({offset, 128 << 10}, kStart));
  REQUIRE(recorder.ranges().size() == 1);
  CHECK(recorder.ranges()[0].length == cache::OpeningProfile::kRangeBytesMax);
  REQUIRE(recorder.note({200 * kMiB, kMiB}, kStart));  // so much at once needs no help
  CHECK(recorder.ranges().size() == 1);
}

TEST_CASE("no opening has more ranges than the limit") {
  OpeningRecorder recorder(kStart);
  std::uint64_t noted = 0;
  while (recorder.note({noted * kMiB, kPage}, kStart)) ++noted;
  CHECK(recorder.ranges().size() == OpeningRecorder::kRangesMax);
}

}  // namespace
}  // namespace headrace::fuse::opening_recorder_test
