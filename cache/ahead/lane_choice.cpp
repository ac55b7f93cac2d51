// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/ahead/lane_choice.h"

#include <algorithm>
#include <utility>

namespace headrace::cache {

LaneChoice::LaneChoice(Schedule& schedule, std::size_t ranks)
    : schedule_(schedule),
      lanes_(schedule.lanes()),
      ranks_(ranks, Rank{.lanes = LeastKey<Urgency>(lanes_.size() / ranks)}),
      least_(ranks) {}

std::optional<Place> LaneChoice::next(Place low) {
  if (std::exchange(must_take_stock_, false)) take_stock(low);
  if (std::exchange(has_moved_, false))
    is_in_epoch_&& lanes_[chosen_].next >= low ? update(chosen_) : go_on(chosen_, low);
  // What lies before the reader may be gone by now.
  if (ended_ > 0 && schedule_.at(std::max(ended_at_, low))) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (lanes_[lane].has_ended) go_on(lane, low);
    }
    ended_at_ = schedule_.end();
  }
  while (!least_.key().has_ended) {
    const std::size_t rank = least_.index();
    chosen_ = ranks_[rank].lanes.index() * ranks_.size() + rank;
    if (lanes_[chosen_].next >= low) return lanes_[chosen_].next;
    go_on(chosen_, low);
  }
  return std::nullopt;
}

void LaneChoice::on_planned(bool is_ahead) {
  Lane& lane = lanes_[chosen_];
  const std::optional<Place> after = schedule_.after_in_lane(lane.next);
  lane.next = after ? *after : schedule_.epoch_end(lane.next);
  has_moved_ = true;
  is_in_epoch_ = after.has_value();
  if (!is_ahead) return;
  ++lane.ahead;
  ++ranks_[chosen_ % ranks_.size()].ahead;
}

bool LaneChoice::on_passed(std::size_t index, Place place) {
  Lane& lane = lanes_[index];
  lane.reached = std::max(lane.reached, place);
  const bool was_planned = place < lane.next;
  if (was_planned) {
    --lane.ahead;
    --ranks_[index % ranks_.size()].ahead;
  }
  update(index);
  return was_planned;
}

void LaneChoice::restart(Place place) {
  std::ranges::fill(lanes_, Lane{.next = place});
  for (Rank& rank : ranks_) rank.ahead = 0;
  must_take_stock_ = true;
  has_moved_ = false;
  ended_ = 0;
}

void LaneChoice::take_stock(Place low) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) find_place(lane, low);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].epoch_start = earliest_epoch(rank);
    update_rank(rank);
  }
}

// The first place of the lane from there on.
void LaneChoice::find_place(std::size_t index, Place from) {
  Lane& lane = lanes_[index];
  const std::optional<Place> next = schedule_.first_in_lane(std::max(lane.next, from), index);
  if (lane.has_ended) --ended_;
  lane.has_ended = !next;
  if (next) {
    lane.next = *next;
    lane.epoch_start = schedule_.epoch_start(*next);
  } else {
    lane.next = schedule_.end();
    lane.epoch_start = UINT64_MAX;
    if (ended_++ == 0) ended_at_ = lane.next;
  }
}

void LaneChoice::go_on(std::size_t lane, Place from) {
  const Place epoch_before = lanes_[lane].epoch_start;
  find_place(lane, from);
  const std::size_t rank = lane % ranks_.size();
  if (lanes_[lane].epoch_start == epoch_before) return update(lane);
  const Place earliest = earliest_epoch(rank);
  if (std::exchange(ranks_[rank].epoch_start, earliest) == earliest) return update(lane);
  update_rank(rank);
}

void LaneChoice::update(std::size_t lane) {
  Rank& rank = ranks_[lane % ranks_.size()];
  rank.lanes.set(lane / ranks_.size(), urgency_of(lanes_[lane]));
  const Urgency& most_urgent = rank.lanes.key();
  least_.set(lane % ranks_.size(),
             {.has_ended = most_urgent.readiness == Readiness::kEnded, .ahead = rank.ahead, .lane = most_urgent});
}

// Of all its lanes.
void LaneChoice::update_rank(std::size_t rank) {
  for (std::size_t lane = rank; lane < lanes_.size(); lane += ranks_.size()) update(lane);
}

Place LaneChoice::earliest_epoch(std::size_t rank) const {
  Place earliest = UINT64_MAX;
  for (std::size_t lane = rank; lane < lanes_.size(); lane += ranks_.size())
    earliest = std::min(earliest, lanes_[lane].epoch_start);
  return earliest;
}

// A worker that reads the next epoch already does not wait: its rank is not what it seems to be.
LaneChoice::Urgency LaneChoice::urgency_of(const Lane& lane) const {
  const Rank& rank = ranks_[static_cast<std::size_t>(&lane - lanes_.data()) % ranks_.size()];
  const bool waits = lane.epoch_start > rank.epoch_start && lane.reached < lane.epoch_start;
  const Readiness ready = waits ? Readiness::kWaits : Readiness::kReady;
  return {.readiness = lane.has_ended ? Readiness::kEnded : ready, .ahead = lane.ahead, .next = lane.next};
}

}  // namespace headrace::cache
