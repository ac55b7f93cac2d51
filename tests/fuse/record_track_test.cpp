// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/record_track.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace headrace::fuse::record_track_test {
namespace {

using cache::SampleIndex;

constexpr std::uint64_t kRecords = 10'000;

std::shared_ptr<const cache::Order> order_of(const std::string& spec) {
  auto order = cache::make_order(spec, {.sample_count = kRecords});
  REQUIRE(order.has_value());
  return std::move(*order);
}

RecordTrack track_of(const std::string& spec, const RecordTrack::Start& start = {}) {
  return {order_of(spec), start};
}

std::vector<SampleIndex> range(SampleIndex first, SampleIndex end) {
  std::vector<SampleIndex> records;
  for (SampleIndex record = first; record < end; ++record) records.push_back(record);
  return records;
}

RecordTrack::Heard hear(RecordTrack& track, const std::vector<SampleIndex>& records) {
  return track.on_read(records);
}

TEST_CASE("the READ of a beacon tells that all records before it were read") {
  RecordTrack track = track_of("sequential");
  CHECK(hear(track, {0}).passed == range(0, 1));
  CHECK(hear(track, {16}).passed == range(1, 17));
  CHECK(hear(track, {48}).passed == range(17, 49));  // one was not heard
}

TEST_CASE("faults of one record are neither news nor strays, nor is a READ between records") {
  RecordTrack track = track_of("sequential");
  (void)hear(track, {20});
  for (int fault = 0; fault < 27; ++fault) {
    const RecordTrack::Heard again = hear(track, {20});
    CHECK(again.passed.empty());
    CHECK_FALSE(again.stray);
  }
  CHECK_FALSE(hear(track, {}).stray);
}

TEST_CASE("nobody is found in an epoch that is not known") {
  RecordTrack known = track_of("sequential", {.position = kRecords - 10});
  CHECK(hear(known, {5}).passed.size() == 16);
  RecordTrack guess = track_of("sequential", {.position = kRecords - 10, .epoch_count = 1});
  const RecordTrack::Heard heard = hear(guess, {5});
  CHECK(heard.stray == 5);
  CHECK(heard.is_unexpected);
  CHECK(heard.passed.empty());
}

TEST_CASE("of the records that a READ may have been for, the nearest ahead counts") {
  RecordTrack track = track_of("sequential", {.position = 100});
  CHECK(hear(track, {500, 116, 130}).passed == range(100, 117));
}

TEST_CASE("a reader far ahead is believed once the next READ goes on from there") {
  RecordTrack track = track_of("sequential");
  CHECK(hear(track, {500}).passed.empty());
  CHECK(hear(track, {16}).passed == range(0, 17));  // it was somebody else
  CHECK(hear(track, {600}).passed.empty());
  CHECK(hear(track, {616}).passed == range(17, 617));
}

TEST_CASE("a record that is nowhere near is a stray") {
  RecordTrack track = track_of("sequential");
  CHECK(hear(track, {9000}).stray == SampleIndex{9000});
  track.restart({.position = 9000});
  CHECK(hear(track, {9010}).passed == range(9000, 9011));
}

TEST_CASE("the reader is followed into the next epochs") {
  const auto order = order_of("torch-distributed:seed=3");
  RecordTrack track(order, {.epoch = 4, .position = kRecords - 20});
  std::vector<SampleIndex> expected;
  for (std::uint64_t epoch = 4; epoch < 8; ++epoch) {
    const auto drawn = order->epoch(epoch).value();
    expected.insert(expected.end(), drawn.begin(), drawn.end());
  }
  std::vector<SampleIndex> passed;
  for (std::uint64_t place = kRecords - 20; place < expected.size() - kRecords; place += 16) {
    const RecordTrack::Heard heard = hear(track, {expected[place]});
    passed.insert(passed.end(), heard.passed.begin(), heard.passed.end());
  }
  REQUIRE(passed.size() > 2 * kRecords);
  for (std::size_t i = 0; i < passed.size(); ++i) REQUIRE(passed[i] == expected[kRecords - 20 + i]);
}

TEST_CASE("workers are a batch each apart, and what the slowest may not have read is not passed") {
  RecordTrack track = track_of("sequential:batch=32,workers=4");
  CHECK(hear(track, {100}).passed.empty());
  CHECK(hear(track, {33}).passed.empty());
  CHECK(hear(track, {420}).passed == range(0, 421 - 4 * 3 * 32));
}

TEST_CASE("workers are no further apart than there is room for") {
  RecordTrack track = track_of("sequential:batch=2048,workers=1");
  track.limit_spread(100);
  CHECK(hear(track, {90}).passed.empty());
  CHECK(hear(track, {150}).passed == range(0, 51));
  track.limit_spread(UINT64_MAX);
  CHECK(hear(track, {160}).passed.empty());
}

}  // namespace
}  // namespace headrace::fuse::record_track_test
