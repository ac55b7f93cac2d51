// SPDX-License-Identifier: Apache-2.0
// Where a reader of records is, told from the READs that the page cache could not serve. What was pushed is read
// unseen; so one page of every few records is left out (a beacon), whose READ tells.
//
//   RecordTrack track(order, {.epoch = 3});
//   const RecordTrack::Heard heard = track.on_read(records.records_in(range));
//   for (SampleIndex record : heard.passed) read_ahead.on_read(record);
//
// A READ may have been for any record that has bytes in it: it is a set of possible places, of which the nearest ahead
// is taken. A place further away counts only if the next READ goes on from there. Who reads elsewhere altogether is a
// stray, and has to be found by whoever owns the plan (cache::ReadAhead does).
//
// Memory: two epochs of the order. Each call looks at kFar places at most, mostly at a few.
// Thread-safety: none; one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::fuse {

class RecordTrack {
 public:
  // READs between two beacons: enough that three may go unheard.
  static constexpr std::uint64_t kBeaconEvery = 16;

  struct Start {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    std::uint64_t epoch_count = UINT64_MAX;  // from `epoch` on; what comes later is a guess, and nobody is found there
  };
  RecordTrack(std::shared_ptr<const cache::Order> order, const Start& start);

  struct Heard {
    std::vector<cache::SampleIndex> passed;   // the reader is through with these, in the sequence of the order
    std::optional<cache::SampleIndex> stray;  // not where the reader is expected
    bool is_unexpected = false;               // a stray, or so far ahead that the next READ has to show it
  };
  [[nodiscard]] Heard on_read(std::span<const cache::SampleIndex> records);
  // Places that the workers of a loader can be apart: each is in one of the batches that were drawn ahead.
  [[nodiscard]] static std::uint64_t spread_of(const cache::Order& order);
  // They count as so many at most: what is kept for workers that lag must leave room for what comes next.
  void limit_spread(std::uint64_t places) { spread_ = std::min(spread_of(*order_), places); }
  // The reader is here now, in the epochs that were known from the beginning.
  void restart(const Start& start);

 private:
  // Beacons that are heard lie so far apart, with three unheard between them.
  static constexpr std::uint64_t kNear = 4 * kBeaconEvery;
  // How far the reader may have gone on unheard: two READs in step show that it did.
  static constexpr std::uint64_t kFar = 1024;
  // Faults of one record follow each other: they are neither news nor strays.
  static constexpr std::uint64_t kBehind = 64;

  [[nodiscard]] std::optional<cache::SampleIndex> at(std::uint64_t place);
  [[nodiscard]] std::optional<std::uint64_t> nearest(std::span<const cache::SampleIndex> records);
  [[nodiscard]] bool goes_on_to(std::uint64_t place);

  const std::shared_ptr<const cache::Order> order_;
  std::uint64_t spread_;
  const std::uint64_t end_epoch_;                     // the first one that is not known
  std::uint64_t next_epoch_ = 0;                      // to be drawn
  std::deque<std::vector<cache::SampleIndex>> rows_;  // the epochs around the reader
  std::uint64_t next_ = 0;                            // the first place not passed, counted from the first row
  std::uint64_t heard_ = 0;                           // after the furthest place that was read
  std::optional<std::uint64_t> seen_far_;             // by the last READ
};

}  // namespace headrace::fuse
