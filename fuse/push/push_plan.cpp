// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/push_plan.h"

#include <algorithm>
#include <utility>

namespace headrace::fuse {
using cache::SampleIndex;

namespace {

// Single pages go for other reasons too. But a reader stands still for each loss: with one of 20 opens an epoch takes
// nearly twice its time.
constexpr std::uint64_t kLossesMin = 16;
constexpr std::uint64_t kLossShare = 32;
// Records are small, and a source that takes its time answers a fixed number of them at once. So the window has room
// for what is on its way, for as many that have arrived, and for what the workers of the loader are apart.
constexpr std::uint64_t kRecordsAhead = 1024;  // twice what the pusher has on its way at most

std::uint64_t window_records(const cache::Order& order) {
  return kRecordsAhead + 2 * RecordTrack::spread_of(order);
}

}  // namespace

PushPlan::PushPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options)
    : catalog_(catalog),
      takeover_(takeover),
      next_unseen_(std::move(options.next_unseen)),
      records_(std::move(options.records)),
      evidence_(records_ ? std::make_unique<ReadEvidence>(records_) : nullptr),
      pages_of_records_(records_ ? records_->count() : 0),
      pages_(records_ ? PageCacheAccount(records_->sizes(), pages_of_records_)
                      : PageCacheAccount(catalog, takeover.pages)),
      copies_(catalog),
      budget_(pages_, {.bytes = options.budget_bytes,
                       .can_copy = options.can_copy && !records_,
                       .bytes_of_all_copies = copies_.bytes_of_all()}),
      followed_(pages_.sizes(), records_ != nullptr, *takeover.head) {
  if (records_) record_pages_.emplace(records_, pages_);
  if (records_) pin_indexes();
  OrderPosition from = followed_.give(std::move(options.order));
  const bool is_anew = takeover_.head->is_untold && !takeover_.head->follows_before;  // over other samples
  if (takeover_.head->takeovers > 0 ? !is_anew : takeover_.head->follows_before) followed_.resume(from);
  divide_budget();
  fetch_pins();
  make_plan(from);
}

// Programs read them for every record.
void PushPlan::pin_indexes() {
  for (std::uint64_t record = records_->set().count(); record < records_->count(); ++record)
    pages_.pin(static_cast<SampleIndex>(record));
}

void PushPlan::make_plan(const OrderPosition& from) {
  ++generation_;
  const cache::Order* const order = followed_.given().get();
  budget_.set_window_samples(records_ && order != nullptr ? window_records(*order) : 0);
  // Until the new plan asks for it. Where there is none what is held stays, as far as the budget goes: a guess of what
  // is read next is no better.
  const bool is_guessing = order == nullptr && next_unseen_ && !records_;
  if (!is_guessing || pages_.held_bytes() > pages_.budget_bytes()) pages_.release_all();
  if (evidence_) evidence_->settle(from.read_already);
  followed_.plan(from, budget_.bytes() > 0 ? std::optional(room()) : std::nullopt, !next_unseen_ && !records_);
  adopt_held(from.read_already);
  take_releases();
}

// Else it would make room for what the plan asks for first, and be fetched again later. What this epoch has not read
// yet is needed sooner. Split: the kernel may have dropped it.
void PushPlan::adopt_held(std::span<const SampleIndex> read_already) {
  if (!followed_.is_planned() || budget_.is_split()) return;
  std::vector<bool> was_read(pages_.sizes().size());
  for (const SampleIndex sample : read_already) was_read[sample] = true;
  for (const bool read : {false, true}) {
    for (SampleIndex sample = 0; sample < was_read.size(); ++sample) {
      if (was_read[sample] != read || !pages_.is_held(sample) || pages_.keeps(sample)) continue;
      if (followed_.adopt(sample)) pages_.want(sample);
    }
  }
}

std::optional<SampleIndex> PushPlan::next_fetch() {
  if (const std::optional<SampleIndex> pin = next_pin()) {
    begin_fetch(*pin);
    return pin;
  }
  while (const std::optional<SampleIndex> sample = candidate()) {
    if (pages_.keeps(*sample)) {  // it takes none of the plan's room
      followed_.on_fetched(*sample, false);
      continue;
    }
    pages_.want(*sample);
    // Released earlier, but its room was not needed yet. Split: the kernel may have dropped it since.
    const bool held = pages_.is_held(*sample) && !budget_.is_split();
    // What never has room would be read at the source for nothing.
    const bool fits = pages_.bytes_of(*sample) <= pages_.budget_bytes();
    if (!held && fits && pages_.can_be_pushed(*sample) && !is_of_changed_pack(*sample)) {
      if (arriving_.contains(*sample)) continue;  // for the plan before; it is this one's when it lands
      begin_fetch(*sample);
      return sample;
    }
    followed_.on_fetched(*sample, held);
  }
  return std::nullopt;
}

bool PushPlan::is_of_changed_pack(SampleIndex sample) const {
  return !changed_packs_.empty() && changed_packs_.contains(records_->entry_of(sample));
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
    followed_.on_lost(sample);  // it is not the plan's
    if (!pages_.is_held(sample)) pins_to_fetch_.push_back(sample);
  }
}

PinOutcome PushPlan::pin(std::span<const SampleIndex> samples) {
  PinOutcome outcome{.pinned_bytes = pages_.pinned_bytes(), .pinnable_bytes = budget_.pinnable_bytes()};
  for (const SampleIndex sample : samples)
    outcome.asked_bytes += pages_.is_pinned(sample) ? 0 : pages_.bytes_of(sample);
  outcome.is_pinned = outcome.pinned_bytes + outcome.asked_bytes <= outcome.pinnable_bytes;
  if (!outcome.is_pinned) return outcome;
  for (const SampleIndex sample : samples) pages_.pin(sample);
  if (!followed_.is_planned()) pages_.release_all();  // all else is a guess
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
  if (waste_.is_paused() && !is_filling_) return std::nullopt;
  if (followed_.is_planned()) return followed_.next_fetch();
  if (!pins_to_fetch_.empty()) return std::nullopt;
  if (followed_.given() || records_ || !has_room_for_unseen()) return std::nullopt;
  if (next_unseen_) {
    if (const std::optional<SampleIndex> unseen = next_unseen_()) return unseen;
  }
  const bool is_all_unseen = next_unseen_ && counters_.opens == 0;
  if (!is_filling_ && !is_all_unseen) return std::nullopt;
  if (listed_ < pages_.sizes().size()) return listed_++;
  is_filling_ = false;
  return std::nullopt;
}

void PushPlan::fill() {
  if (followed_.given() || records_) return;
  waste_.restart();
  listed_ = 0;
  is_filling_ = true;
}

bool PushPlan::has_room_for_unseen() const {
  return pages_.wanted_bytes() + arriving_bytes_ < pages_.wanted_bytes_max();
}

std::optional<SampleIndex> PushPlan::next_victim(std::uint64_t bytes) {
  const std::optional<SampleIndex> victim = pages_.next_victim(bytes);
  if (victim) followed_.on_lost(*victim);
  return victim;
}

bool PushPlan::place(SampleIndex sample) {
  if (!pages_.place(sample)) return false;
  arriving_bytes_ -= pages_.bytes_of(sample);
  return true;
}

void PushPlan::on_fetched(SampleIndex sample, std::uint64_t generation, Landing landing) {
  if (landing == Landing::kCopyHeld) return;
  if (landing == Landing::kCopyFailed) return copies_.drop(sample);
  const bool pushed = landing == Landing::kPushed;
  arriving_.erase(sample);
  if (landing == Landing::kFailedBeforePlace || landing == Landing::kNoRoom) arriving_bytes_ -= pages_.bytes_of(sample);
  if (landing == Landing::kFailedAfterPlace) pages_.fail(sample);
  if (landing == Landing::kNoRoom && pages_.keeps(sample)) pins_to_fetch_.push_back(sample);
  if (pushed) {
    ++counters_.pushed_samples;
    counters_.pushed_bytes +=
        records_ ? records_->content_bytes(sample) : catalog_.size_bytes(catalog_.sample_entry(sample));
  } else if (landing != Landing::kNoRoom) {
    ++counters_.push_failures;
    copies_.drop(sample);
  }
  if (generation == generation_) {
    followed_.on_fetched(sample, pushed && !pages_.keeps(sample));
  } else if (!pushed) {
    followed_.on_fetched(sample, false);
  } else if (pages_.keeps(sample) || !followed_.adopt(sample)) {
    pages_.release(sample);
  }
  take_releases();
}

void PushPlan::take_releases() {
  for (const SampleIndex sample : followed_.take_releases()) pages_.release(sample);
}

void PushPlan::on_opens(std::span<const SampleIndex> samples) {
  counters_.opens += samples.size();
  for (const SampleIndex sample : samples) {
    if (!lacks(sample)) ++counters_.met;
    followed_.is_planned(sample) ? open_planned(sample) : open_unplanned(sample);
  }
  note_position();
  note_waste();
}

void PushPlan::on_open_by_read(SampleIndex sample) {
  waste_.restart();
  on_opens({&sample, 1});
}

void PushPlan::note_waste() {
  waste_.note({.opens = counters_.opens,
               .met = counters_.met,
               .fetched = counters_.from_source,
               .held = pages_.held_samples()});
}

void PushPlan::open_planned(SampleIndex sample) {
  if (pages_.keeps(sample) && pages_.is_held(sample)) ++counters_.hits;
  if (!followed_.on_open(sample)) give_order_up();
}

void PushPlan::give_order_up() {
  std::string spec = followed_.given()->spec();
  set_order({});
  followed_.note_given_up(std::move(spec));
}

void PushPlan::note_position() {
  if (!followed_.note_position(counters_.opens)) give_order_up();
  take_releases();
}

void PushPlan::open_unplanned(SampleIndex sample) {
  if (pages_.is_read_in_whole(sample)) ++counters_.hits;
  if (!pages_.is_held(sample)) return;
  ++counters_.hits;
  if (pages_.budget_bytes() < pages_.total_bytes()) pages_.release(sample);  // not needed again in this epoch
}

void PushPlan::let_go(std::span<const SampleIndex> samples) {
  if (followed_.is_planned()) return;
  for (const SampleIndex sample : samples) pages_.release(sample);
}

void PushPlan::on_read(SampleIndex sample, const PageRange& range) {
  if (arriving_.contains(sample)) return;
  if (pages_.is_held(sample)) {
    budget_.note_loss();
    if (range.offset == 0) ++counters_.lost_samples;
    copies_.add_lost(sample, copies_limit());
  } else if (budget_.bytes() > 0) {
    pages_.on_read_in(sample, range);
  }
}

std::vector<SampleIndex> PushPlan::on_pack_read(cache::EntryId pack, const PageRange& range) {
  if (changed_packs_.contains(pack)) return {};  // where its records lie now nobody knows
  std::vector<SampleIndex> read = records_->records_in(pack, range);
  std::erase_if(read, [this](SampleIndex record) { return records_->is_index(record); });  // on its way
  if (read.empty()) return {};
  for (const SampleIndex record : read) {
    if (budget_.bytes() > 0 && !pages_.is_held(record) && !arriving_.contains(record)) pages_.on_read_in(record, range);
  }
  const std::optional<SampleIndex> read_plainly = evidence_->on_read(range, read);
  if (!followed_.hears()) return read_plainly ? std::vector{*read_plainly} : std::vector<SampleIndex>();
  if (read_plainly) static_cast<void>(evidence_->take_told(*read_plainly));  // it is not told yet
  RecordTrack::Heard heard = followed_.hear(read);
  counters_.opens += heard.passed.size();
  for (const SampleIndex record : heard.passed) {
    if (followed_.is_planned()) open_planned(record);  // not: one of them contradicted the order
  }
  if (heard.stray && followed_.is_planned()) {
    ++counters_.opens;
    if (!followed_.on_stray(*heard.stray)) give_order_up();
  }
  std::erase_if(heard.passed, [this](SampleIndex record) { return evidence_->take_told(record); });
  if (heard.is_unexpected && read_plainly) heard.passed.push_back(*read_plainly);
  note_position();
  return std::move(heard.passed);
}

void PushPlan::on_pack_changed(cache::EntryId pack) {
  const cache::RecordSet& set = records_->set();
  const std::size_t number = set.find_pack(pack).value();
  changed_packs_.insert(pack);
  const SampleIndex first = set.first_record(number);
  for (SampleIndex record = first; record < first + set.packs()[number].map.count(); ++record) {
    pages_.drop(record);
    followed_.on_lost(record);
  }
  for (std::uint64_t record = set.count(); record < records_->count(); ++record) {
    if (records_->entry_of(static_cast<SampleIndex>(record)) != pack) continue;
    pages_.drop(static_cast<SampleIndex>(record));
    pages_.unpin(static_cast<SampleIndex>(record));
  }
  if (changed_packs_.size() == set.packs().size()) set_order({});
}

void PushPlan::on_changed(SampleIndex sample) {
  if (pages_.is_held(sample)) waste_.on_changed_file();
  copies_.drop(sample);
  pages_.drop(sample);
  followed_.on_lost(sample);
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

void PushPlan::set_order(const OrderPosition& order) {
  is_filling_ = false;
  if (followed_.move_to(order)) return take_releases();
  waste_.on_order(order.order && (!followed_.given() || followed_.given()->spec() != order.order->spec()));
  make_plan(followed_.give(order));
}

void PushPlan::set_budget(std::uint64_t budget_bytes) {
  budget_.set(budget_bytes);
  apply_budget();
}

void PushPlan::limit_budget(std::uint64_t budget_bytes) {
  budget_.limit(budget_bytes);
  apply_budget();
}

bool PushPlan::on_pages_dropped() {
  if (!budget_.divide_for_losses()) return false;
  apply_budget();
  return true;
}

void PushPlan::divide_budget() {
  const bool kept = pages_.keeps_pins();
  pages_.keep_pins(pages_.pinned_bytes() <= budget_.pinnable_bytes());
  pages_.set_budget(budget_.page_cache_bytes());
  if (pages_.keeps_pins() && !kept) fetch_pins();
}

void PushPlan::apply_budget() {
  waste_.restart();
  divide_budget();
  if (!followed_.is_planned()) return make_plan(followed_.where());
  followed_.set_room(room());
  take_releases();
}

bool PushPlan::hold_copy(SampleIndex sample) {
  const bool is_wanted = budget_.can_copy() && budget_.copies_all();
  return copies_.contains(sample) || (is_wanted && copies_.add(sample, copies_limit()));
}

void PushPlan::add_stats(MountStats& stats) const {
  stats.budget_bytes = budget_.bytes();
  stats.held_bytes = pages_.held_bytes();
  stats.held_samples = pages_.held_samples();
  stats.read_in_bytes = pages_.read_in_bytes();
  stats.evicted_samples = pages_.evicted_samples();
  stats.copies_budget_bytes = budget_.copies_bytes();
  stats.copies_bytes = copies_.bytes();
  stats.copied_samples = copies_.samples();
  stats.pinnable_bytes = budget_.pinnable_bytes();
  if (!records_) {  // of whose packs the indexes are pinned, and nothing that anybody asked for
    stats.pinned_bytes = pages_.pinned_bytes();
    stats.pinned_samples = pages_.pinned_samples();
    stats.pinned_held_samples = pages_.pinned_held_samples();
  }
  stats.pushed_samples = counters_.pushed_samples;
  stats.pushed_bytes = counters_.pushed_bytes;
  stats.push_failures = counters_.push_failures;
  stats.read_ahead_pauses = waste_.pauses();
  stats.read_ahead_paused_opens = waste_.opens_left();
  stats.lost_samples = counters_.lost_samples;
  stats.opens = counters_.opens;
  stats.overflows = counters_.overflows;
  stats.hits = counters_.hits;
  followed_.add_stats(stats);
}

PushProgress PushPlan::progress() const {
  const std::uint64_t total_bytes = pages_.total_bytes();
  PushProgress progress{.held_bytes = pages_.held_bytes(),
                        .target_bytes = std::min(pages_.wanted_bytes_max(), total_bytes),
                        .held_samples = pages_.held_samples(),
                        .target_samples = pages_.sizes().size()};
  const bool is_guessing = !followed_.given() && !records_;
  if (is_guessing && progress.target_bytes == total_bytes) {
    progress.missing_samples = pages_.pushable_count() - std::min(pages_.pushable_count(), pages_.held_samples());
  }
  if (progress.target_bytes < total_bytes) {
    const double share = static_cast<double>(progress.target_bytes) / static_cast<double>(total_bytes);
    progress.target_samples = static_cast<std::uint64_t>(share * static_cast<double>(progress.target_samples));
  }
  return progress;
}

}  // namespace headrace::fuse
