// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/push_plan.h"

#include <algorithm>
#include <utility>

namespace headrace::fuse {
using cache::ReadAhead;
using cache::SampleIndex;

namespace {

// Where the kernel drops pages: an eighth of the budget ahead of the reader rides out the pauses of a source; where
// that lies idle for too long still, down to a 64th.
constexpr std::uint64_t kPageCacheShareFirst = 8;
constexpr std::uint64_t kPageCacheShareLast = 64;
// Single pages go for other reasons too. But a reader stands still for each loss: with one of 20 opens an epoch takes
// nearly twice its time.
constexpr std::uint64_t kLossesMin = 16;
constexpr std::uint64_t kLossShare = 32;
// Twice what the pusher has on its way at most.
constexpr std::uint64_t kRecordsAhead = 1024;

// Of the data set, as its first epoch has them.
std::vector<SampleIndex> first_samples(const cache::OrderedSet& set) {
  std::vector<SampleIndex> samples = set.order->epoch(0).value_or(std::vector<SampleIndex>());
  for (SampleIndex& sample : samples) sample = set.samples[sample];
  return samples;
}

}  // namespace

PushPlan::PushPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options)
    : catalog_(catalog),
      takeover_(takeover),
      next_unseen_(std::move(options.next_unseen)),
      can_retain_(options.can_retain && !options.records),
      records_(std::move(options.records)),
      pages_of_records_(records_ ? records_->map().count() : 0),
      pages_(records_ ? PageCacheAccount(records_->sizes(), pages_of_records_)
                      : PageCacheAccount(catalog, takeover.pages)),
      retained_(catalog),
      full_budget_bytes_(options.budget_bytes),
      budget_bytes_(options.budget_bytes) {
  options.order = with_own_passes(std::move(options.order));
  given_order_ = options.order.order;
  put_to_trial(options.order);
  if (takeover_.head->takeovers > 0) {
    options.order.epoch = takeover_.head->epoch;
    options.order.position = takeover_.head->position;
  }
  divide_budget();
  fetch_pins();
  make_plan(options.order);
}

// What comes next in an order over several sets depends on what its reader does, so each plan has a copy.
OrderPosition PushPlan::with_own_passes(OrderPosition order) {
  passes_.reset();
  turns_.reset();
  const auto given = std::dynamic_pointer_cast<const cache::PassOrder>(order.order);
  if (!given) return order;
  passes_ = given->anew(order.epoch);
  turns_.emplace(passes_);
  order.order = passes_;
  order.epoch = 0;
  return order;
}

void PushPlan::make_plan(const OrderPosition& order) {
  count_plan();
  ++generation_;
  read_ahead_.reset();
  track_.reset();
  order_ = given_order_;
  const std::uint64_t sample_count = pages_.sizes().size();
  if (!order_ && !next_unseen_ && !records_) {
    Result<std::unique_ptr<cache::Order>> listed = cache::make_order("sequential", {.sample_count = sample_count});
    if (listed) order_ = std::move(*listed);
  }
  // Until the new plan asks for it. Where there is none what is held stays, as far as the budget goes: a guess of what
  // is read next is no better.
  const bool is_guessing = !order_ && next_unseen_ && !records_;
  if (!is_guessing || pages_.held_bytes() > pages_.budget_bytes()) pages_.release_all();
  if (!order_ || budget_bytes_ == 0 || sample_count == 0) return;
  read_ahead_ = std::make_unique<ReadAhead>(*order_, pages_.sizes(),
                                            cache::ReadAheadOptions{.budget_bytes = planned_bytes_max(),
                                                                    .window_bytes = window_bytes(),
                                                                    .first_epoch = order.epoch,
                                                                    .epoch_count = order.epoch_count});
  if (order.position > 0) read_ahead_->seek(order.epoch, order.position);
  for (const SampleIndex sample : order.read_already) read_ahead_->on_read(sample);
  pace_.restart(read_ahead_->state().epoch);
  if (records_) track_.emplace(order_, RecordTrack::Start{order.epoch, order.position});
  note_position();
  take_releases();
}

// Its figures go with it.
void PushPlan::count_plan() {
  if (!read_ahead_) return;
  const ReadAhead::State state = read_ahead_->state();
  counters_.hits += state.hits;
  counters_.late += state.late;
  counters_.strays += state.strays;
}

std::optional<SampleIndex> PushPlan::next_fetch() {
  if (const std::optional<SampleIndex> pin = next_pin()) {
    begin_fetch(*pin);
    return pin;
  }
  while (const std::optional<SampleIndex> sample = candidate()) {
    if (pages_.keeps(*sample)) {  // it takes none of the plan's room
      if (read_ahead_) read_ahead_->on_fetched(*sample, false);
      continue;
    }
    pages_.want(*sample);
    // Released earlier, but its room was not needed yet. Split: the kernel may have dropped it since.
    const bool held = pages_.is_held(*sample) && !is_split();
    // What never has room would be read at the source for nothing.
    const bool fits = pages_.bytes_of(*sample) <= pages_.budget_bytes();
    if (!held && fits && pages_.can_be_pushed(*sample)) {
      begin_fetch(*sample);
      return sample;
    }
    if (read_ahead_) read_ahead_->on_fetched(*sample, held);
  }
  return std::nullopt;
}

void PushPlan::begin_fetch(SampleIndex sample) {
  arriving_bytes_ += pages_.bytes_of(sample);
  arriving_.insert(sample);
}

// nullopt: none is missing, or its room is not there yet. What is on its way along the order lets go of it.
std::optional<SampleIndex> PushPlan::next_pin() {
  while (!pins_to_fetch_.empty()) {
    const SampleIndex sample = pins_to_fetch_.front();
    if (arriving_.contains(sample)) return std::nullopt;
    if (pages_.keeps(sample) && !pages_.is_held(sample)) {
      const std::uint64_t wanted = pages_.wanted_bytes() + arriving_bytes_;
      if (wanted + pages_.bytes_of(sample) > pages_.budget_bytes()) return std::nullopt;
      pins_to_fetch_.pop_front();
      return sample;
    }
    pins_to_fetch_.pop_front();
  }
  return std::nullopt;
}

void PushPlan::fetch_pins() {
  pins_to_fetch_.clear();
  if (pages_.pinned_samples() == 0) return;
  for (SampleIndex sample = 0; sample < pages_.sizes().size(); ++sample) {
    if (!pages_.keeps(sample)) continue;
    if (read_ahead_) read_ahead_->on_lost(sample);  // it is not the plan's
    if (!pages_.is_held(sample)) pins_to_fetch_.push_back(sample);
  }
}

PinOutcome PushPlan::pin(std::span<const SampleIndex> samples) {
  PinOutcome outcome{.pinned_bytes = pages_.pinned_bytes(), .pinnable_bytes = pinnable_bytes()};
  for (const SampleIndex sample : samples)
    outcome.asked_bytes += pages_.is_pinned(sample) ? 0 : pages_.bytes_of(sample);
  outcome.is_pinned = outcome.pinned_bytes + outcome.asked_bytes <= outcome.pinnable_bytes;
  if (!outcome.is_pinned) return outcome;
  for (const SampleIndex sample : samples) pages_.pin(sample);
  if (!read_ahead_) pages_.release_all();  // all else is a guess
  fetch_pins();
  apply_budget();
  return outcome;
}

void PushPlan::unpin(std::span<const SampleIndex> samples) {
  const std::uint64_t before = pages_.pinned_samples();
  for (const SampleIndex sample : samples) pages_.unpin(sample);
  if (pages_.pinned_samples() != before) apply_budget();
}

std::optional<SampleIndex> PushPlan::candidate() {
  if (read_ahead_) return read_ahead_->next_fetch();
  if (!pins_to_fetch_.empty()) return std::nullopt;
  if (given_order_ || !next_unseen_ || !has_room_for_unseen()) return std::nullopt;
  if (const std::optional<SampleIndex> unseen = next_unseen_()) return unseen;
  if (counters_.opens > 0 || listed_ == pages_.sizes().size()) return std::nullopt;
  return listed_++;  // before the first open all are unseen
}

bool PushPlan::has_room_for_unseen() const {
  return pages_.wanted_bytes() + arriving_bytes_ < pages_.wanted_bytes_max();
}

std::optional<SampleIndex> PushPlan::next_victim(std::uint64_t bytes) {
  const std::optional<SampleIndex> victim = pages_.next_victim(bytes);
  if (victim && read_ahead_) read_ahead_->on_lost(*victim);
  return victim;
}

bool PushPlan::place(SampleIndex sample) {
  if (!pages_.place(sample)) return false;
  arriving_bytes_ -= pages_.bytes_of(sample);
  return true;
}

void PushPlan::on_fetched(SampleIndex sample, std::uint64_t generation, Landing landing) {
  if (landing == Landing::kRetained) return;
  if (landing == Landing::kNotRetained) return retained_.drop(sample);
  const bool pushed = landing == Landing::kPushed;
  arriving_.erase(sample);
  if (landing == Landing::kFailedBeforePlace || landing == Landing::kNoRoom) arriving_bytes_ -= pages_.bytes_of(sample);
  if (landing == Landing::kFailedAfterPlace) pages_.fail(sample);
  if (landing == Landing::kNoRoom && pages_.keeps(sample)) pins_to_fetch_.push_back(sample);
  if (pushed) {
    ++counters_.pushed_samples;
    counters_.pushed_bytes +=
        records_ ? records_->map().extent(sample).length : catalog_.size_bytes(catalog_.sample_entry(sample));
  } else if (landing != Landing::kNoRoom) {
    ++counters_.push_failures;
    retained_.drop(sample);
  }
  if (generation == generation_) {
    if (read_ahead_) read_ahead_->on_fetched(sample, pushed && !pages_.keeps(sample));
  } else if (!read_ahead_ || !read_ahead_->holds(sample)) {
    pages_.release(sample);
  }
  take_releases();
}

void PushPlan::take_releases() {
  if (!read_ahead_) return;
  for (const SampleIndex sample : read_ahead_->take_releases()) pages_.release(sample);
}

void PushPlan::on_opens(std::span<const SampleIndex> samples) {
  counters_.opens += samples.size();
  for (const SampleIndex sample : samples) is_planned(sample) ? open_planned(sample) : open_unplanned(sample);
  note_position();
  look_at_pace();
  take_releases();
}

// What lies outside of the sets that have orders is read plainly.
bool PushPlan::is_planned(SampleIndex sample) const {
  return read_ahead_ && (!passes_ || passes_->set_of(sample));
}

void PushPlan::open_planned(SampleIndex sample) {
  if (pages_.keeps(sample) && pages_.is_held(sample)) ++counters_.hits;
  const bool is_stray = !read_ahead_->on_read(sample);
  if (is_contradicted_by(sample, is_stray)) return passes_ ? give_set_up(*passes_->set_of(sample)) : give_order_up();
  if (!turns_) return;
  if (const std::optional<SetTurns::Turn> turn = turns_->on_open(sample, is_stray)) go_to(*turn);
}

void PushPlan::go_to(const SetTurns::Turn& turn) {
  read_ahead_->seek(turn.pass, turn.position);
  for (const SampleIndex sample : turn.opened) read_ahead_->on_read(sample);
  if (!trials_.empty()) trials_[turns_->set()].restart();
  pace_.restart(turn.pass);
}

void PushPlan::open_unplanned(SampleIndex sample) {
  if (!pages_.is_held(sample)) return;
  ++counters_.hits;
  if (pages_.budget_bytes() < pages_.total_bytes()) pages_.release(sample);  // not needed again in this epoch
}

void PushPlan::let_go(std::span<const SampleIndex> samples) {
  if (read_ahead_) return;
  for (const SampleIndex sample : samples) pages_.release(sample);
}

void PushPlan::on_read(SampleIndex sample, const PageRange& range) {
  if (arriving_.contains(sample)) return;
  if (pages_.is_held(sample)) {
    drops_pages_ = true;
    if (range.offset == 0) ++counters_.lost_samples;
    retained_.add_lost(sample, retained_limit());
  } else if (budget_bytes_ > 0) {
    pages_.on_read_in(sample, range);
  }
}

void PushPlan::on_pack_read(const PageRange& range) {
  const std::vector<SampleIndex> read = records_->records_in(range);
  for (const SampleIndex record : read) {
    if (budget_bytes_ > 0 && !pages_.is_held(record) && !arriving_.contains(record)) pages_.on_read_in(record, range);
  }
  if (!track_) return;
  const RecordTrack::Heard heard = track_->on_read(read);
  counters_.opens += heard.passed.size();
  for (const SampleIndex record : heard.passed) {
    if (read_ahead_) open_planned(record);  // null: one of them contradicted the order
  }
  if (heard.stray && read_ahead_) follow_stray(*heard.stray);
  note_position();
  look_at_pace();
  take_releases();
}

// The plan finds out where the reader went.
void PushPlan::follow_stray(SampleIndex record) {
  ++counters_.opens;
  const ReadAhead::State before = read_ahead_->state();
  open_planned(record);
  if (!read_ahead_) return;
  const ReadAhead::State now = read_ahead_->state();
  if (now.epoch != before.epoch || now.position != before.position) track_from(now.epoch, now.position);
}

void PushPlan::track_from(std::uint64_t epoch, std::uint64_t position) {
  if (track_) track_->restart({.epoch = epoch, .position = position});
}

// One for so many records that are read. Of those that are held already none is left out, so that where few are
// fetched, more of these have one.
std::uint64_t PushPlan::beacon_every() const {
  const std::uint64_t total = std::max<std::uint64_t>(1, pages_.total_bytes() / RecordTrack::kBeaconEvery);
  const std::uint64_t lacking = pages_.total_bytes() - std::min(pages_.total_bytes(), pages_.wanted_bytes_max());
  return std::clamp<std::uint64_t>(lacking / total, 1, RecordTrack::kBeaconEvery);
}

// Where all records are held, nobody needs to know where the reader is.
bool PushPlan::takes_beacon(SampleIndex record) {
  if (pages_.wanted_bytes_max() >= pages_.total_bytes() || ++since_beacon_ < beacon_every()) return false;
  if (pages_.is_read_in(record)) return false;  // its page may be there already
  since_beacon_ = 0;
  return true;
}

PageRange PushPlan::pages_to_drop(SampleIndex record) const {
  PageRange pages = records_->pages_of(record);
  const auto is_shared = [this, record](std::uint64_t page) {
    const std::vector<SampleIndex> there = records_->records_in({page, records_->page_bytes()});
    return std::ranges::any_of(there, [&](SampleIndex each) { return each != record && pages_.is_held(each); });
  };
  if (pages.length > 0 && is_shared(pages.offset)) {
    const std::uint64_t kept = std::min(pages.length, records_->page_bytes());
    pages = {pages.offset + kept, pages.length - kept};
  }
  if (pages.length == 0) return pages;
  const std::uint64_t last = (pages.offset + pages.length - 1) / records_->page_bytes() * records_->page_bytes();
  if (is_shared(last)) pages.length = last - pages.offset;
  return pages;
}

void PushPlan::on_pack_changed() {
  for (SampleIndex record = 0; record < pages_.sizes().size(); ++record) pages_.drop(record);
  set_order({});
}

void PushPlan::on_changed(SampleIndex sample) {
  retained_.drop(sample);
  pages_.drop(sample);
  if (read_ahead_) read_ahead_->on_lost(sample);
  if (pages_.keeps(sample)) pins_to_fetch_.push_back(sample);
}

bool PushPlan::take_losses() {
  const std::uint64_t losses = counters_.lost_samples - losses_taken_;
  const std::uint64_t opens = counters_.opens - opens_taken_;
  if (losses < kLossesMin && opens < kLossesMin * kLossShare) return false;  // too few to tell: it goes on counting
  losses_taken_ = counters_.lost_samples;
  opens_taken_ = counters_.opens;
  return losses >= kLossesMin && losses * kLossShare >= opens;
}

void PushPlan::note_position() {
  if (!read_ahead_) return;
  const ReadAhead::State state = read_ahead_->state();
  takeover_.head->epoch = state.epoch;
  takeover_.head->position = state.position;
  if (turns_) turns_->note(state.epoch, state.position);
}

// A position that runs ahead of the opens belongs to another order, however many of them it explains.
void PushPlan::look_at_pace() {
  if (!read_ahead_ || !given_order_) return;
  const std::uint64_t epoch = takeover_.head->epoch;
  const std::uint64_t strays = counters_.strays + read_ahead_->state().strays;
  if (pace_.is_impossible(epoch, given_order_->length(epoch), counters_.opens, strays)) give_order_up();
}

void PushPlan::set_order(const OrderPosition& order) {
  contradicted_ = false;  // that was the order before
  if (read_ahead_ && order.order && order.order == given_order_) {
    put_to_trial(order);
    read_ahead_->seek(order.epoch, order.position);
    track_from(order.epoch, order.position);
    pace_.restart(order.epoch);
    note_position();
    return take_releases();
  }
  const OrderPosition own = with_own_passes(order);
  put_to_trial(own);
  given_order_ = own.order;
  make_plan(own);
}

void PushPlan::put_to_trial(const OrderPosition& order) {
  trials_.clear();
  if (!order.order || !order.may_be_wrong) return;
  if (passes_) {
    for (const cache::OrderedSet& set : passes_->sets())
      trials_.emplace_back(first_samples(set), pages_.sizes().size());
    return;
  }
  if (const auto epoch = order.order->epoch(order.epoch)) trials_.emplace_back(*epoch, pages_.sizes().size());
}

// A set that another reader looks into while this one is read says nothing about its order.
bool PushPlan::is_contradicted_by(SampleIndex sample, bool is_stray) {
  if (trials_.empty()) return false;
  const std::size_t set = passes_ ? *passes_->set_of(sample) : 0;
  return (!turns_ || set == turns_->set()) && trials_[set].is_contradicted_by(sample, is_stray);
}

void PushPlan::give_order_up() {
  given_up_ = given_order_->spec();
  set_order({});
  contradicted_ = true;
  ++counters_.orders_given_up;
}

// Its samples are read plainly from now on. Without the largest set there is little left to follow.
void PushPlan::give_set_up(std::size_t set) {
  if (set == passes_->largest() || !passes_->let_go(set)) return give_order_up();
  given_up_ = passes_->sets()[set].name + "=" + passes_->sets()[set].order->spec();
  contradicted_ = true;
  ++counters_.orders_given_up;
  go_to(turns_->leave(set));
}

void PushPlan::set_budget(std::uint64_t budget_bytes) {
  full_budget_bytes_ = budget_bytes;
  limit_budget(budget_bytes);
}

void PushPlan::limit_budget(std::uint64_t budget_bytes) {
  budget_bytes_ = budget_bytes;
  if (holds_all_twice()) page_cache_share_ = 1;  // split while it was smaller: there is no need any more
  apply_budget();
}

bool PushPlan::on_pages_dropped() {
  if (!can_retain_ || holds_all_twice() || page_cache_share_ >= kPageCacheShareLast) return false;
  page_cache_share_ = is_split() ? page_cache_share_ * 2 : kPageCacheShareFirst;
  apply_budget();
  return true;
}

// Half: what is read next may need a quarter of the budget, and what is open but not read yet another one.
std::uint64_t PushPlan::pinnable_bytes() const {
  return budget_bytes_ >= pages_.total_bytes() ? pages_.total_bytes() : budget_bytes_ / 2;
}

void PushPlan::divide_budget() {
  const bool kept = pages_.keeps_pins();
  pages_.keep_pins(pages_.pinned_bytes() <= pinnable_bytes());
  pages_.set_budget(page_cache_budget());
  if (pages_.keeps_pins() && !kept) fetch_pins();
}

void PushPlan::apply_budget() {
  divide_budget();
  if (!read_ahead_) return make_plan({.epoch = takeover_.head->epoch, .position = takeover_.head->position});
  read_ahead_->set_budget(planned_bytes_max(), window_bytes());
  take_releases();
}

// Of what may be wanted at one time: without the pinned samples. Where all are held, there is nothing to divide.
std::uint64_t PushPlan::planned_bytes_max() const {
  const std::uint64_t wanted = pages_.wanted_bytes_max();
  const bool divides = pages_.keeps_pins() && wanted < pages_.total_bytes();
  return divides ? wanted - std::min(wanted, pages_.pinned_bytes()) : wanted;
}

// Split: never for all samples, so that each makes way after its use and is pushed anew before the next.
std::uint64_t PushPlan::page_cache_budget() const {
  if (!is_split()) return budget_bytes_;
  const std::uint64_t pinned = pages_.keeps_pins() ? pages_.pinned_bytes() : 0;
  return pinned + std::min((budget_bytes_ - pinned) / page_cache_share_, pages_.total_bytes() / 2);
}

// Records are small, and a source that takes its time answers a fixed number of them at once. So the window has room
// for what is on its way, for as many that have arrived, and for what the workers of the loader are apart.
std::uint64_t PushPlan::window_bytes() const {
  if (is_split()) return planned_bytes_max();
  if (!records_ || !given_order_ || pages_.sizes().empty()) return 0;
  const std::uint64_t records = kRecordsAhead + 2 * RecordTrack::spread_of(*given_order_);
  const std::uint64_t bytes = records * (pages_.total_bytes() / pages_.sizes().size());
  return std::clamp(bytes, pages_.budget_bytes() / 32, pages_.budget_bytes() / 2);
}

bool PushPlan::holds_all_twice() const {
  return budget_bytes_ >= pages_.total_bytes() && budget_bytes_ - pages_.total_bytes() >= retained_.bytes_of_all();
}

// Beside what the page cache holds.
bool PushPlan::keeps_copies() const {
  return drops_pages_ && !is_split() && budget_bytes_ == full_budget_bytes_;
}

bool PushPlan::retain(SampleIndex sample) {
  const bool is_wanted = is_split() || (keeps_copies() && holds_all_twice());
  return retained_.contains(sample) || (can_retain_ && is_wanted && retained_.add(sample, retained_limit()));
}

std::uint64_t PushPlan::retained_limit() const {
  if (!can_retain_) return 0;
  const std::uint64_t page_cache = keeps_copies() ? pages_.total_bytes() : pages_.budget_bytes();
  return budget_bytes_ - std::min(budget_bytes_, std::max(page_cache, pages_.held_bytes()));
}

void PushPlan::add_stats(MountStats& stats) const {
  const ReadAhead::State state = read_ahead_ ? read_ahead_->state() : ReadAhead::State{};
  stats.budget_bytes = budget_bytes_;
  stats.held_bytes = pages_.held_bytes();
  stats.held_samples = pages_.held_samples();
  stats.read_in_bytes = pages_.read_in_bytes();
  stats.evicted_samples = pages_.evicted_samples();
  stats.retained_budget_bytes = is_split() ? budget_bytes_ - pages_.budget_bytes() : retained_limit();
  stats.retained_bytes = retained_.bytes();
  stats.retained_samples = retained_.samples();
  stats.pinnable_bytes = pinnable_bytes();
  stats.pinned_bytes = pages_.pinned_bytes();
  stats.pinned_samples = pages_.pinned_samples();
  stats.pinned_held_samples = pages_.pinned_held_samples();
  stats.pushed_samples = counters_.pushed_samples;
  stats.pushed_bytes = counters_.pushed_bytes;
  stats.push_failures = counters_.push_failures;
  stats.lost_samples = counters_.lost_samples;
  stats.opens = counters_.opens;
  stats.overflows = counters_.overflows;
  stats.hits = counters_.hits + state.hits;
  stats.late = counters_.late + state.late;
  stats.strays = counters_.strays + state.strays;
  stats.orders_given_up = counters_.orders_given_up;
  stats.order_given_up = given_up_;
  stats.epoch = state.epoch;
  stats.position = state.position;
  if (passes_) {
    const cache::PassOrder::Pass pass = passes_->pass(state.epoch);
    stats.order_set = passes_->sets()[pass.set].name;
    stats.epoch = pass.epoch;
  }
  stats.ahead_samples = state.ahead;
  stats.order = given_order_ ? given_order_->spec() : "";
}

PushProgress PushPlan::progress() const {
  const std::uint64_t total_bytes = pages_.total_bytes();
  PushProgress progress{.held_bytes = pages_.held_bytes(),
                        .target_bytes = std::min(pages_.wanted_bytes_max(), total_bytes),
                        .held_samples = pages_.held_samples(),
                        .target_samples = pages_.sizes().size()};
  if (progress.target_bytes < total_bytes) {
    const double share = static_cast<double>(progress.target_bytes) / static_cast<double>(total_bytes);
    progress.target_samples = static_cast<std::uint64_t>(share * static_cast<double>(progress.target_samples));
  }
  return progress;
}

}  // namespace headrace::fuse
