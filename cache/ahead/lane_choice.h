// SPDX-License-Identifier: Apache-2.0
// Which lane of a schedule is planned next: one of the rank with the least planned ahead of it, and there the one with
// the least, so that a worker which is slow or waits for the others does not fill the window, and one which is fast
// does not run out. The workers of a rank begin an epoch together: those through with theirs wait until the others are
// planned to its end.
//
//   LaneChoice lanes(schedule, ranks);
//   if (const auto place = lanes.next(reader_place)) { plan(*place); lanes.on_planned(true); }
//   if (lanes.on_passed(lane, place)) unplan(place);   // the reader is through with it
//
// Where each lane goes on is kept, and so is the least of each rank and of all ranks, in trees: a choice takes
// O(log lanes), and looks at the schedule for the lane that was planned last alone. A lane that the reader overtook is
// found out when it is chosen: it comes no later than it should, because nothing is planned ahead of it.
// Thread-safety: none; one owner. Ownership: the schedule outlives it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "headrace/cache/ahead/schedule.h"

namespace headrace::cache {

// The least of some keys that change one at a time. There is at least one.
template <typename Key>
class LeastKey {
 public:
  explicit LeastKey(std::size_t count, const Key& key = {}) : keys_(count, key), least_(count) {
    for (std::size_t node = count; node-- > 1;) choose(node);
  }
  void set(std::size_t index, const Key& key) {
    keys_[index] = key;
    for (std::size_t node = (keys_.size() + index) / 2; node > 0; node /= 2) choose(node);
  }
  [[nodiscard]] std::size_t index() const { return least_of(1); }
  [[nodiscard]] const Key& key() const { return keys_[index()]; }

 private:
  // A tree without pointers: node i is over 2i and 2i + 1; from keys_.size() on they are the keys.
  [[nodiscard]] std::size_t least_of(std::size_t node) const {
    return node < keys_.size() ? least_[node] : node - keys_.size();
  }
  void choose(std::size_t node) {
    const std::size_t left = least_of(2 * node);
    const std::size_t right = least_of(2 * node + 1);
    least_[node] = keys_[right] < keys_[left] ? right : left;
  }

  std::vector<Key> keys_;
  std::vector<std::size_t> least_;  // by node, but for the keys
};

class LaneChoice {
 public:
  // Lane i is of rank i % ranks.
  LaneChoice(Schedule& schedule, std::size_t ranks);

  // The next place of the lane that is to be planned next; `low`: the first place that the reader did not pass. Draws
  // like Schedule::at(). nullopt: the schedule ends.
  [[nodiscard]] std::optional<Place> next(Place low);
  // The place that next() named is planned or, with false, was passed already: its lane goes on behind it.
  void on_planned(bool is_ahead);
  // The reader is through with the place. False: it was not planned; its lane will find it passed.
  [[nodiscard]] bool on_passed(std::size_t lane, Place place);
  // All places of the lane before this one were planned, none from here on.
  [[nodiscard]] Place planned_to(std::size_t lane) const { return lanes_[lane].next; }
  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  // Nothing is planned, and all lanes go on from here.
  void restart(Place place);

 private:
  struct Lane {
    Place next = 0;           // all of its places before this one were planned, none from here on
    std::uint64_t ahead = 0;  // planned, not passed
    Place reached = 0;        // the furthest place that its worker passed
    Place epoch_start = 0;    // of `next`
    bool has_ended = false;   // the schedule has no more of it for now
  };
  enum class Readiness : std::uint8_t { kReady, kWaits, kEnded };
  struct Urgency {  // of a lane within its rank
    Readiness readiness = Readiness::kReady;
    std::uint64_t ahead = 0;
    Place next = 0;
    auto operator<=>(const Urgency&) const = default;
  };
  struct RankUrgency {
    bool has_ended = false;
    std::uint64_t ahead = 0;
    Urgency lane;  // its most urgent one
    auto operator<=>(const RankUrgency&) const = default;
  };
  // What the lanes of one rank have in common.
  struct Rank {
    std::uint64_t ahead = 0;
    Place epoch_start = 0;  // of the earliest epoch that a lane of it is in
    LeastKey<Urgency> lanes;
  };

  void take_stock(Place low);
  void find_place(std::size_t lane, Place from);
  void go_on(std::size_t lane, Place from);
  void update(std::size_t lane);
  void update_rank(std::size_t rank);
  [[nodiscard]] Place earliest_epoch(std::size_t rank) const;
  [[nodiscard]] Urgency urgency_of(const Lane& lane) const;

  Schedule& schedule_;
  std::vector<Lane> lanes_;
  std::vector<Rank> ranks_;
  LeastKey<RankUrgency> least_;
  std::size_t chosen_ = 0;       // by next()
  bool has_moved_ = false;       // the chosen lane
  bool is_in_epoch_ = false;     // it has moved to a place of its own in the same epoch, not to the epoch's end
  bool must_take_stock_ = true;  // the lanes' places are not known
  std::size_t ended_ = 0;        // lanes
  Place ended_at_ = 0;           // the end of the schedule when they were looked at last
};

}  // namespace headrace::cache
