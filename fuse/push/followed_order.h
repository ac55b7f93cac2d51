// SPDX-License-Identifier: Apache-2.0
// The order that is followed: what its reader takes next (cache::ReadAhead), where it is, which of its sets it reads,
// and whether it reads as the order says.
// Pure: no I/O, no threads, no clock.
//
//   FollowedOrder followed(pages.sizes(), false, head);
//   followed.plan(followed.give({.order = order}), FollowedOrder::Room{.bytes = 8ULL << 30}, true);
//   while (auto sample = followed.next_fetch()) fetch(*sample);   // later: on_fetched(*sample, true)
//   if (!followed.on_open(sample)) give_up();
//   for (SampleIndex gone : followed.take_releases()) ...;
//
// Without an order, and where nothing may be pushed, nothing is planned: nothing is named then, and what is told is
// ignored.
//
// Thread-safety: none; one owner. Ownership: the sizes and the head outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headrace/cache/order_position.h"
#include "headrace/cache/pass_order.h"
#include "headrace/cache/read_ahead.h"
#include "headrace/fuse/mount_stats.h"
#include "headrace/fuse/push/order_trial.h"
#include "headrace/fuse/push/record_track.h"
#include "headrace/fuse/push/set_turns.h"
#include "headrace/fuse/survive/takeover.h"

namespace headrace::fuse {

using cache::OrderPosition;

class FollowedOrder {
 public:
  // What may be wanted at one time, and the window of it: cache::ReadAheadOptions.
  struct Room {
    std::uint64_t bytes = 0;
    std::uint64_t window_bytes = 0;
  };

  // `head`: keeps where the reader is.
  FollowedOrder(const cache::SampleSizes& sizes, bool of_records, TakeoverHead& head)
      : sizes_(sizes), of_records_(of_records), head_(head) {}

  // Another order, or none, from now on. Where to plan from.
  [[nodiscard]] OrderPosition give(OrderPosition order);
  // Right after give(): its reader is where the process before left the head, and not where the order begins.
  void resume(OrderPosition& from);
  // Plans from there on; nullopt: nothing. `lists`: along the catalog, where no order was given.
  void plan(const OrderPosition& from, const std::optional<Room>& room, bool lists);
  // True: the order is followed already. Its reader was moved, and what is held stays.
  [[nodiscard]] bool move_to(const OrderPosition& order);
  void set_room(const Room& room);

  [[nodiscard]] const std::shared_ptr<const cache::Order>& given() const { return given_; }  // null: unknown
  [[nodiscard]] OrderPosition where() const { return {.epoch = epoch_, .position = position_}; }
  [[nodiscard]] bool is_planned() const { return read_ahead_ != nullptr; }
  // What lies outside of the sets that have orders is read plainly.
  [[nodiscard]] bool is_planned(cache::SampleIndex sample) const {
    return read_ahead_ && (!passes_ || passes_->set_of(sample));
  }

  [[nodiscard]] std::optional<cache::SampleIndex> next_fetch();
  void on_fetched(cache::SampleIndex sample, bool success);
  void on_lost(cache::SampleIndex sample);
  // It is there from before, or was fetched for another plan. False: this plan has no use for it.
  [[nodiscard]] bool adopt(cache::SampleIndex sample) { return read_ahead_ && read_ahead_->adopt(sample); }
  [[nodiscard]] std::vector<cache::SampleIndex> take_releases();

  // Of a sample that is planned. False: the opens contradict the order, which is to be given up.
  [[nodiscard]] bool on_open(cache::SampleIndex sample);
  // Of records: a READ came that may have been for these. Which were passed is to be told by on_open(), a stray by
  // on_stray().
  [[nodiscard]] bool hears() const { return track_.has_value(); }
  [[nodiscard]] RecordTrack::Heard hear(std::span<const cache::SampleIndex> records);
  [[nodiscard]] bool on_stray(cache::SampleIndex record);
  // After opens; `opens`: all that there were. False: a position that runs ahead of them belongs to another order,
  // however many of them it explains.
  [[nodiscard]] bool note_position(std::uint64_t opens);

  // The order was given up, for none or another one.
  void note_given_up(std::string spec);
  // True once after an order that may be wrong, or one of its sets, was contradicted; it is not followed any more.
  [[nodiscard]] bool take_contradiction() { return std::exchange(contradicted_, false); }
  [[nodiscard]] const std::string& given_up() const { return given_up_; }  // the last one

  // Adds to what reads found, and fills in what is said of the order.
  void add_stats(MountStats& stats) const;

 private:
  void count_plan();
  void note_where();
  void put_to_trial(const OrderPosition& order);
  [[nodiscard]] bool is_contradicted_by(cache::SampleIndex sample, bool is_stray);
  [[nodiscard]] bool give_set_up(std::size_t set);
  void go_to(const SetTurns::Turn& turn);
  void limit_spread(const Room& room);
  void track_from(std::uint64_t epoch, std::uint64_t position);

  const cache::SampleSizes& sizes_;
  const bool of_records_;
  TakeoverHead& head_;
  std::shared_ptr<const cache::Order> given_;  // null: unknown
  std::uint64_t epoch_ = 0;                    // of it, where the reader is; the head has that of a set
  std::uint64_t position_ = 0;
  std::shared_ptr<const cache::Order> order_;     // what read_ahead_ goes along
  std::unique_ptr<cache::ReadAhead> read_ahead_;  // null: nothing is planned
  std::optional<RecordTrack> track_;              // of records, beside read_ahead_
  std::shared_ptr<cache::PassOrder> passes_;      // the order, where it is over several sets; else null
  std::optional<SetTurns> turns_;                 // likewise
  std::vector<OrderTrial> trials_;                // of an order that may be wrong: one for each set
  EpochPace pace_;
  bool contradicted_ = false;
  std::string given_up_;  // what the opens contradicted last
  std::uint64_t orders_given_up_ = 0;
  cache::ReadAhead::State before_ = {};  // hits, late and strays of plans before the present one
};

}  // namespace headrace::fuse
