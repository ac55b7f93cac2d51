// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/followed_order.h"

#include <algorithm>

namespace headrace::fuse {
using cache::ReadAhead;
using cache::SampleIndex;

namespace {

// Of the data set, as its first epoch has them.
std::vector<SampleIndex> first_samples(const cache::OrderedSet& set) {
  std::vector<SampleIndex> samples = set.order->epoch(0).value_or(std::vector<SampleIndex>());
  for (SampleIndex& sample : samples) sample = set.samples[sample];
  return samples;
}

}  // namespace

// What comes next in an order over several sets depends on what its reader does, so each plan has a copy.
OrderPosition FollowedOrder::give(OrderPosition order) {
  contradicted_ = false;  // that was the order before
  passes_.reset();
  turns_.reset();
  if (const auto given = std::dynamic_pointer_cast<const cache::PassOrder>(order.order)) {
    passes_ = given->anew(order.epoch);
    turns_.emplace(passes_);
    order.order = passes_;
    order.epoch = 0;
  }
  put_to_trial(order);
  given_ = order.order;
  return order;
}

void FollowedOrder::resume(OrderPosition& from) {
  from.epoch = head_.epoch;
  from.position = head_.position;
  if (!passes_) return;
  passes_ = passes_->anew_within(std::min<std::size_t>(head_.set, passes_->sets().size() - 1), head_.epoch);
  turns_.emplace(passes_);
  given_ = passes_;
  from.order = passes_;
  from.epoch = 0;
}

void FollowedOrder::plan(const OrderPosition& from, const std::optional<Room>& room, bool lists) {
  count_plan();
  read_ahead_.reset();
  track_.reset();
  epoch_ = from.epoch;
  position_ = from.position;
  order_ = given_;
  if (!order_ && lists) {
    io::Result<std::unique_ptr<cache::Order>> listed = cache::make_order("sequential", {.sample_count = sizes_.size()});
    if (listed) order_ = std::move(*listed);
  }
  if (!order_ || !room || sizes_.empty()) return;
  read_ahead_ = std::make_unique<ReadAhead>(*order_, sizes_,
                                            cache::ReadAheadOptions{.budget_bytes = room->bytes,
                                                                    .window_bytes = room->window_bytes,
                                                                    .first_epoch = from.epoch,
                                                                    .epoch_count = from.epoch_count});
  if (from.position > 0) read_ahead_->seek(from.epoch, from.position);
  for (const SampleIndex sample : from.read_already) read_ahead_->on_read(sample);
  pace_.restart(read_ahead_->state().epoch);
  // What was read already is behind the reader, or between its workers.
  const std::uint64_t position = from.position + from.read_already.size();
  if (of_records_) track_.emplace(order_, RecordTrack::Start{from.epoch, position, from.epoch_count});
  limit_spread(*room);
  note_where();
}

void FollowedOrder::set_room(const Room& room) {
  read_ahead_->set_budget(room.bytes, room.window_bytes);
  limit_spread(room);
}

// Half of what there is room for: the other half is for what comes next. An order that was found out may say that
// workers are further apart than all that is held: the opens of one reader, told in sequence, are taken for one large
// batch.
void FollowedOrder::limit_spread(const Room& room) {
  if (!track_) return;
  const std::uint64_t mean_bytes = std::max<std::uint64_t>(1, sizes_.total() / sizes_.size());
  track_->limit_spread(room.bytes / mean_bytes / 2);
}

bool FollowedOrder::move_to(const OrderPosition& order) {
  if (!read_ahead_ || !order.order || order.order != given_) return false;
  contradicted_ = false;
  put_to_trial(order);
  read_ahead_->seek(order.epoch, order.position);
  track_from(order.epoch, order.position);
  pace_.restart(order.epoch);
  note_where();
  return true;
}

// Its figures go with it.
void FollowedOrder::count_plan() {
  if (!read_ahead_) return;
  const ReadAhead::State state = read_ahead_->state();
  before_.hits += state.hits;
  before_.late += state.late;
  before_.strays += state.strays;
}

std::optional<SampleIndex> FollowedOrder::next_fetch() {
  return read_ahead_ ? read_ahead_->next_fetch() : std::nullopt;
}

void FollowedOrder::on_fetched(SampleIndex sample, bool success) {
  if (read_ahead_) read_ahead_->on_fetched(sample, success);
}

void FollowedOrder::on_lost(SampleIndex sample) {
  if (read_ahead_) read_ahead_->on_lost(sample);
}

std::vector<SampleIndex> FollowedOrder::take_releases() {
  return read_ahead_ ? read_ahead_->take_releases() : std::vector<SampleIndex>();
}

bool FollowedOrder::on_open(SampleIndex sample) {
  const bool is_stray = !read_ahead_->on_read(sample);
  if (is_contradicted_by(sample, is_stray)) return passes_ && give_set_up(*passes_->set_of(sample));
  if (!turns_) return true;
  if (const std::optional<SetTurns::Turn> turn = turns_->on_open(sample, is_stray)) go_to(*turn);
  return true;
}

void FollowedOrder::go_to(const SetTurns::Turn& turn) {
  read_ahead_->seek(turn.pass, turn.position);
  for (const SampleIndex sample : turn.opened) read_ahead_->on_read(sample);
  if (!trials_.empty()) trials_[turns_->set()].restart();
  pace_.restart(turn.pass);
}

RecordTrack::Heard FollowedOrder::hear(std::span<const SampleIndex> records) {
  return track_ ? track_->on_read(records) : RecordTrack::Heard{};
}

// The plan finds out where the reader went.
bool FollowedOrder::on_stray(SampleIndex record) {
  const ReadAhead::State before = read_ahead_->state();
  if (!on_open(record)) return false;
  const ReadAhead::State now = read_ahead_->state();
  if (now.epoch != before.epoch || now.position != before.position) track_from(now.epoch, now.position);
  return true;
}

void FollowedOrder::track_from(std::uint64_t epoch, std::uint64_t position) {
  if (track_) track_->restart({.epoch = epoch, .position = position});
}

void FollowedOrder::note_where() {
  const ReadAhead::State state = read_ahead_->state();
  epoch_ = head_.epoch = state.epoch;
  position_ = head_.position = state.position;
  if (!turns_) return;
  turns_->note(state.epoch, state.position);
  const cache::PassOrder::Pass pass = passes_->pass(state.epoch);
  head_.set = static_cast<std::uint8_t>(pass.set);
  head_.epoch = pass.epoch;
}

bool FollowedOrder::note_position(std::uint64_t opens) {
  if (!read_ahead_) return true;
  note_where();
  if (!given_) return true;
  const std::uint64_t strays = before_.strays + read_ahead_->state().strays;
  return !pace_.is_impossible(epoch_, given_->length(epoch_), opens, strays);
}

void FollowedOrder::put_to_trial(const OrderPosition& order) {
  trials_.clear();
  if (!order.order || !order.may_be_wrong) return;
  if (passes_) {
    for (const cache::OrderedSet& set : passes_->sets()) trials_.emplace_back(first_samples(set), sizes_.size());
    return;
  }
  if (const auto epoch = order.order->epoch(order.epoch)) trials_.emplace_back(*epoch, sizes_.size());
}

// A set that another reader looks into while this one is read says nothing about its order.
bool FollowedOrder::is_contradicted_by(SampleIndex sample, bool is_stray) {
  if (trials_.empty()) return false;
  const std::size_t set = passes_ ? *passes_->set_of(sample) : 0;
  return (!turns_ || set == turns_->set()) && trials_[set].is_contradicted_by(sample, is_stray);
}

// Its samples are read plainly from now on. False: without the largest set there is little left to follow.
bool FollowedOrder::give_set_up(std::size_t set) {
  if (set == passes_->largest() || !passes_->let_go(set)) return false;
  note_given_up(passes_->sets()[set].name + "=" + passes_->sets()[set].order->spec());
  go_to(turns_->leave(set));
  return true;
}

void FollowedOrder::note_given_up(std::string spec) {
  given_up_ = std::move(spec);
  contradicted_ = true;
  ++orders_given_up_;
}

void FollowedOrder::add_stats(MountStats& stats) const {
  const ReadAhead::State state = read_ahead_ ? read_ahead_->state() : ReadAhead::State{};
  stats.hits += before_.hits + state.hits;
  stats.late = before_.late + state.late;
  stats.strays = before_.strays + state.strays;
  stats.orders_given_up = orders_given_up_;
  stats.order_given_up = given_up_;
  stats.epoch = state.epoch;
  stats.position = state.position;
  if (passes_) {
    const cache::PassOrder::Pass pass = passes_->pass(state.epoch);
    stats.order_set = passes_->sets()[pass.set].name;
    stats.epoch = pass.epoch;
  }
  stats.ahead_samples = state.ahead;
  stats.order = given_ ? given_->spec() : "";
}

}  // namespace headrace::fuse
