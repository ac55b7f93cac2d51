// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/push_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "headrace/cache/catalog/chunk.h"

namespace headrace::fuse {
using cache::ReadAhead;
using cache::SampleIndex;

namespace {

constexpr std::uint64_t kPageBytes = 4096;
// Room for samples that are open but not read yet: released, still in the page cache. What they take, the next epoch
// lacks; 32 more samples arrive before one that was opened has to go.
constexpr std::uint64_t kGraceShare = 32;
constexpr std::uint64_t kGraceBytesMax = 64 << 20;
constexpr std::uint64_t kGraceSamplesMin = 32;
constexpr std::uint64_t kGraceShareMost = 4;
// Where the kernel drops pages: an eighth of the budget ahead of the reader rides out the pauses of a source; where
// that lies idle for too long still, down to a 64th.
constexpr std::uint64_t kPageCacheShareFirst = 8;
constexpr std::uint64_t kPageCacheShareLast = 64;
// Single pages go for other reasons too. But a reader stands still for each loss: with one of 20 opens an epoch takes
// nearly twice its time.
constexpr std::uint64_t kLossesMin = 16;
constexpr std::uint64_t kLossShare = 32;
// A retained sample makes way for one that is smaller by more than this part of it: among nearly equal ones there is
// nothing to gain, whatever their number.
constexpr std::uint32_t kSmallerShare = 8;

std::vector<std::uint32_t> page_cache_sizes(const cache::Catalog& catalog) {
  std::vector<std::uint32_t> sizes(catalog.sample_count());
  for (SampleIndex sample = 0; sample < sizes.size(); ++sample) {
    const std::uint64_t bytes = catalog.size_bytes(catalog.sample_entry(sample));
    const std::uint64_t pages = (bytes + kPageBytes - 1) / kPageBytes;
    const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    sizes[sample] = static_cast<std::uint32_t>(std::min(pages * kPageBytes, most));
  }
  return sizes;
}

}  // namespace

PushPlan::PushPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options)
    : catalog_(catalog),
      takeover_(takeover),
      sizes_(page_cache_sizes(catalog)),
      total_bytes_(std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0})),
      copies_bytes_(bytes_of_copies()),
      pushable_count_(count_pushable()),
      next_unseen_(std::move(options.next_unseen)),
      can_retain_(options.can_retain),
      full_budget_bytes_(options.budget_bytes),
      budget_bytes_(options.budget_bytes),
      given_order_(options.order.order) {
  if (takeover_.head->takeovers > 0) {
    adopt_holdings();
    options.order.epoch = takeover_.head->epoch;
    options.order.position = takeover_.head->position;
  }
  make_plan(options.order);
}

// What another process pushed lies in the page cache still.
void PushPlan::adopt_holdings() {
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    takeover_.pages[sample].released = false;
    if (takeover_.pages[sample].held) hold(sample);
    if (std::exchange(takeover_.pages[sample].read_in, false)) count_read_in(sample);
  }
}

void PushPlan::make_plan(const OrderPosition& order) {
  if (read_ahead_) {
    const ReadAhead::State state = read_ahead_->state();
    counters_.hits += state.hits;
    counters_.late += state.late;
    counters_.strays += state.strays;
  }
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    if (takeover_.pages[sample].held) release(sample);  // until the new plan asks for it
  }
  ++generation_;
  read_ahead_.reset();
  order_ = given_order_;
  if (!order_ && !next_unseen_) {
    Result<std::unique_ptr<cache::Order>> listed = cache::make_order("sequential", {.sample_count = sizes_.size()});
    if (listed) order_ = std::move(*listed);
  }
  if (!order_ || budget_bytes_ == 0 || sizes_.empty()) return;
  read_ahead_ = std::make_unique<ReadAhead>(*order_, sizes_,
                                            cache::ReadAheadOptions{.budget_bytes = usable_budget(),
                                                                    .window_bytes = window_bytes(),
                                                                    .first_epoch = order.epoch,
                                                                    .epoch_count = order.epoch_count});
  if (order.position > 0) read_ahead_->seek(order.epoch, order.position);
  for (const SampleIndex sample : order.read_already) read_ahead_->on_read(sample);
  note_position();
  take_releases();
}

// Split: never for all samples, so that each makes way after its use and is pushed anew before the next.
std::uint64_t PushPlan::page_cache_budget() const {
  return is_split() ? std::min(budget_bytes_ / page_cache_share_, total_bytes_ / 2) : budget_bytes_;
}

std::uint64_t PushPlan::usable_budget() const {
  const std::uint64_t budget = page_cache_budget();
  if (budget >= total_bytes_) return budget;
  const std::uint64_t least = total_bytes_ / sizes_.size() * kGraceSamplesMin;
  return budget - std::min({std::max(budget / kGraceShare, least), budget / kGraceShareMost, kGraceBytesMax});
}

// Not symlinks out of the source, whose target is not the mount's, nor 4 GiB and more, which the plan cannot count.
bool PushPlan::can_be_pushed(SampleIndex sample) const {
  return catalog_.is_file(catalog_.sample_entry(sample)) && sizes_[sample] < std::numeric_limits<std::uint32_t>::max();
}

std::uint64_t PushPlan::count_pushable() const {
  std::uint64_t count = 0;
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) count += can_be_pushed(sample) ? 1 : 0;
  return count;
}

std::optional<SampleIndex> PushPlan::next_fetch() {
  while (const std::optional<SampleIndex> sample = candidate()) {
    keep(*sample);
    // Let go of earlier, but its room was not needed yet. Split: the kernel may have dropped it since.
    const bool held = takeover_.pages[*sample].held && !is_split();
    if (!held && can_be_pushed(*sample)) {
      arriving_bytes_ += sizes_[*sample];
      arriving_.insert(*sample);
      return sample;
    }
    if (read_ahead_) read_ahead_->on_fetched(*sample, held);
  }
  return std::nullopt;
}

std::optional<SampleIndex> PushPlan::candidate() {
  if (read_ahead_) return read_ahead_->next_fetch();
  if (given_order_ || !next_unseen_ || !has_room_for_unseen()) return std::nullopt;
  if (const std::optional<SampleIndex> unseen = next_unseen_()) return unseen;
  if (counters_.opens > 0 || listed_ == sizes_.size()) return std::nullopt;
  return listed_++;  // before the first open all are unseen
}

bool PushPlan::has_room_for_unseen() const {
  return counters_.held_bytes - released_bytes_ + arriving_bytes_ < usable_budget();
}

std::optional<SampleIndex> PushPlan::next_victim(std::uint64_t bytes) {
  while (must_evict_read_in(bytes)) {
    const SampleIndex oldest = read_in_.front();
    read_in_.pop_front();
    if (!takeover_.pages[oldest].read_in) continue;  // pushed since
    forget_read_in(oldest);
    takeover_.pages[oldest].stale = true;
    ++counters_.evicted_samples;
    return oldest;
  }
  while (is_over(bytes) && !released_.empty()) {
    const SampleIndex oldest = released_.front();
    released_.pop_front();
    if (!takeover_.pages[oldest].held || !takeover_.pages[oldest].released) continue;  // gone, or wanted again since
    forget(oldest);
    takeover_.pages[oldest].stale = true;
    if (read_ahead_ && read_ahead_->holds(oldest)) read_ahead_->on_lost(oldest);
    ++counters_.evicted_samples;
    return oldest;
  }
  return std::nullopt;
}

bool PushPlan::place(SampleIndex sample) {
  if (!takeover_.pages[sample].held && counters_.held_bytes + sizes_[sample] > page_cache_budget()) return false;
  arriving_bytes_ -= sizes_[sample];
  forget_read_in(sample);
  if (!takeover_.pages[sample].held) hold(sample);
  return true;
}

bool PushPlan::take_stale(SampleIndex sample) {
  return std::exchange(takeover_.pages[sample].stale, false);
}

void PushPlan::on_fetched(SampleIndex sample, std::uint64_t generation, Landing landing) {
  if (landing == Landing::kRetained) return;
  if (landing == Landing::kNotRetained) return drop_retained(sample);
  const bool pushed = landing == Landing::kPushed;
  arriving_.erase(sample);
  if (landing == Landing::kFailedBeforePlace || landing == Landing::kNoRoom) arriving_bytes_ -= sizes_[sample];
  if (landing == Landing::kFailedAfterPlace && takeover_.pages[sample].held) forget(sample);
  if (pushed) {
    ++counters_.pushed_samples;
    counters_.pushed_bytes += catalog_.size_bytes(catalog_.sample_entry(sample));
  } else if (landing != Landing::kNoRoom) {
    ++counters_.push_failures;
    drop_retained(sample);
  }
  if (generation == generation_) {
    if (read_ahead_) read_ahead_->on_fetched(sample, pushed);
  } else if (!read_ahead_ || !read_ahead_->holds(sample)) {
    release(sample);
  }
  take_releases();
}

void PushPlan::take_releases() {
  if (!read_ahead_) return;
  for (const SampleIndex sample : read_ahead_->take_releases()) release(sample);
}

void PushPlan::on_opens(std::span<const SampleIndex> samples) {
  counters_.opens += samples.size();
  for (const SampleIndex sample : samples) {
    if (read_ahead_) {
      read_ahead_->on_read(sample);
    } else {
      open_unplanned(sample);
    }
  }
  note_position();
  take_releases();
}

void PushPlan::open_unplanned(SampleIndex sample) {
  if (!takeover_.pages[sample].held) return;
  ++counters_.hits;
  if (page_cache_budget() < total_bytes_) release(sample);  // not needed again in this epoch
}

void PushPlan::on_read(SampleIndex sample, bool from_start) {
  if (arriving_.contains(sample)) return;
  if (takeover_.pages[sample].held) {
    drops_pages_ = true;
    if (from_start) ++counters_.lost_samples;
    if (!is_retained(sample) && start_retaining(sample)) to_retain_.push_back(sample);
  } else if (from_start && budget_bytes_ > 0) {
    count_read_in(sample);
  }
}

std::optional<SampleIndex> PushPlan::next_to_retain() {
  while (!to_retain_.empty()) {
    const SampleIndex sample = to_retain_.front();
    to_retain_.pop_front();
    if (is_retained(sample)) return sample;  // else it has made way since
  }
  return std::nullopt;
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
}

void PushPlan::set_order(const OrderPosition& order) {
  given_order_ = order.order;
  make_plan(order);
}

void PushPlan::set_budget(std::uint64_t budget_bytes) {
  full_budget_bytes_ = budget_bytes;
  limit_budget(budget_bytes);
}

void PushPlan::limit_budget(std::uint64_t budget_bytes) {
  budget_bytes_ = budget_bytes;
  if (holds_all_twice()) page_cache_share_ = 1;  // moved while it was smaller: there is no need any more
  apply_budget();
}

bool PushPlan::on_pages_dropped() {
  if (!can_retain_ || holds_all_twice() || page_cache_share_ >= kPageCacheShareLast) return false;
  page_cache_share_ = is_split() ? page_cache_share_ * 2 : kPageCacheShareFirst;
  apply_budget();
  return true;
}

// A few larger samples than the daemon retains do not matter: they are what is read at the source again.
std::uint64_t PushPlan::bytes_of_copies() const {
  std::uint64_t bytes = 0;
  std::uint64_t left_out = 0;
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    (sizes_[sample] > cache::kChunkBytes ? left_out : bytes) += retained_bytes_of(sample);
  }
  return left_out > total_bytes_ / kLossShare ? std::numeric_limits<std::uint64_t>::max() : bytes;
}

bool PushPlan::holds_all_twice() const {
  return budget_bytes_ >= total_bytes_ && budget_bytes_ - total_bytes_ >= copies_bytes_;
}

void PushPlan::apply_budget() {
  if (!read_ahead_) return make_plan({.epoch = takeover_.head->epoch, .position = takeover_.head->position});
  read_ahead_->set_budget(usable_budget(), window_bytes());
  take_releases();
}

bool PushPlan::retain(SampleIndex sample) {
  const bool is_wanted = is_split() || (keeps_copies() && holds_all_twice());
  return is_retained(sample) || (is_wanted && start_retaining(sample));
}

// Larger files are fetched in pieces, of which the store retains none.
bool PushPlan::start_retaining(SampleIndex sample) {
  if (sizes_[sample] > cache::kChunkBytes) return false;
  const std::uint64_t bytes = retained_bytes_of(sample);
  const bool has_room = counters_.retained_bytes + bytes <= retained_limit();
  if (!has_room && !has_larger_retained(sample)) return false;
  retained_.emplace(sizes_[sample], sample);
  counters_.retained_bytes += bytes;
  ++counters_.retained_samples;
  return true;
}

// Never the other way round, and what is let in later is smaller still, so that under one limit the number of retained
// samples never falls and the exchanging comes to an end.
bool PushPlan::has_larger_retained(SampleIndex sample) const {
  if (retained_.empty()) return false;
  const std::uint32_t largest = retained_.rbegin()->first;
  return sizes_[sample] < largest - largest / kSmallerShare;
}

// Beside what the page cache holds.
bool PushPlan::keeps_copies() const {
  return drops_pages_ && !is_split() && budget_bytes_ == full_budget_bytes_;
}

std::uint64_t PushPlan::retained_limit() const {
  if (!can_retain_) return 0;
  const std::uint64_t page_cache = keeps_copies() ? total_bytes_ : page_cache_budget();
  return budget_bytes_ - std::min(budget_bytes_, std::max(page_cache, counters_.held_bytes));
}

std::optional<SampleIndex> PushPlan::next_to_drop() {
  if (counters_.retained_bytes <= retained_limit()) return std::nullopt;
  const SampleIndex largest = retained_.rbegin()->second;
  drop_retained(largest);
  return largest;
}

void PushPlan::drop_retained(SampleIndex sample) {
  if (retained_.erase({sizes_[sample], sample}) == 0) return;
  counters_.retained_bytes -= retained_bytes_of(sample);
  --counters_.retained_samples;
}

std::uint64_t PushPlan::retained_bytes_of(SampleIndex sample) const {
  return cache::footprint_bytes(catalog_.size_bytes(catalog_.sample_entry(sample)));
}

void PushPlan::hold(SampleIndex sample) {
  takeover_.pages[sample].held = true;
  counters_.held_bytes += sizes_[sample];
  ++counters_.held_samples;
  if (takeover_.pages[sample].released) queue_for_eviction(sample);  // its place went while it was under way
}

void PushPlan::forget(SampleIndex sample) {
  keep(sample);
  takeover_.pages[sample].held = false;
  counters_.held_bytes -= sizes_[sample];
  --counters_.held_samples;
}

void PushPlan::release(SampleIndex sample) {
  SamplePages& holding = takeover_.pages[sample];
  if (!std::exchange(holding.released, true) && holding.held) queue_for_eviction(sample);
}

void PushPlan::keep(SampleIndex sample) {
  SamplePages& holding = takeover_.pages[sample];
  if (std::exchange(holding.released, false) && holding.held) released_bytes_ -= sizes_[sample];
}

void PushPlan::queue_for_eviction(SampleIndex sample) {
  released_.push_back(sample);
  released_bytes_ += sizes_[sample];
}

void PushPlan::count_read_in(SampleIndex sample) {
  if (std::exchange(takeover_.pages[sample].read_in, true)) return;
  counters_.read_in_bytes += sizes_[sample];
  read_in_.push_back(sample);
}

void PushPlan::forget_read_in(SampleIndex sample) {
  if (std::exchange(takeover_.pages[sample].read_in, false)) counters_.read_in_bytes -= sizes_[sample];
}

void PushPlan::add_stats(MountStats& stats) const {
  const ReadAhead::State state = read_ahead_ ? read_ahead_->state() : ReadAhead::State{};
  stats.budget_bytes = budget_bytes_;
  stats.held_bytes = counters_.held_bytes;
  stats.held_samples = counters_.held_samples;
  stats.read_in_bytes = counters_.read_in_bytes;
  stats.retained_budget_bytes = is_split() ? budget_bytes_ - page_cache_budget() : retained_limit();
  stats.retained_bytes = counters_.retained_bytes;
  stats.retained_samples = counters_.retained_samples;
  stats.pushed_samples = counters_.pushed_samples;
  stats.pushed_bytes = counters_.pushed_bytes;
  stats.evicted_samples = counters_.evicted_samples;
  stats.push_failures = counters_.push_failures;
  stats.lost_samples = counters_.lost_samples;
  stats.opens = counters_.opens;
  stats.overflows = counters_.overflows;
  stats.hits = counters_.hits + state.hits;
  stats.late = counters_.late + state.late;
  stats.strays = counters_.strays + state.strays;
  stats.epoch = state.epoch;
  stats.position = state.position;
  stats.ahead_samples = state.ahead;
  stats.order = given_order_ ? given_order_->spec() : "";
}

PushProgress PushPlan::progress() const {
  PushProgress progress{.held_bytes = counters_.held_bytes,
                        .target_bytes = std::min(usable_budget(), total_bytes_),
                        .held_samples = counters_.held_samples,
                        .target_samples = sizes_.size()};
  if (progress.target_bytes < total_bytes_) {
    const double share = static_cast<double>(progress.target_bytes) / static_cast<double>(total_bytes_);
    progress.target_samples = static_cast<std::uint64_t>(share * static_cast<double>(sizes_.size()));
  }
  return progress;
}

}  // namespace headrace::fuse
