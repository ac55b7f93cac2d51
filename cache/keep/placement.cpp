// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/placement.h"

#include <algorithm>
#include <utility>

#include "headrace/cache/sample_sizes.h"

namespace headrace::cache {
namespace {

using io::MutexLock;

// Epochs count as reading the same files if they differ by less than one part in a hundred: padding to whole batches
// repeats a few samples, and dropping the last batch leaves a few out.
constexpr std::uint64_t kAlikeShare = 100;

struct EpochShape {
  std::vector<bool> reads;  // by sample
  std::uint64_t repeats = 0;
};

std::optional<EpochShape> shape_of(const Order& order, std::uint64_t epoch, std::size_t samples) {
  const Result<std::vector<SampleIndex>> drawn = order.epoch(epoch);
  if (!drawn) return std::nullopt;
  EpochShape shape{std::vector<bool>(samples, false)};
  for (const SampleIndex sample : *drawn) {
    shape.repeats += shape.reads[sample] ? 1 : 0;
    shape.reads[sample] = true;
  }
  return shape;
}

// Why MIN pays for this order. Empty: it does not, because each sample is needed again one epoch after it was read.
std::string reason_for_min(const Order& order, std::uint64_t epoch, std::size_t samples) {
  const std::optional<EpochShape> now = shape_of(order, epoch, samples);
  const std::optional<EpochShape> next = shape_of(order, epoch + 1, samples);
  if (!now || !next) return "";
  std::uint64_t reads = now->repeats;
  std::uint64_t differ = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    reads += now->reads[sample] ? 1 : 0;
    differ += now->reads[sample] != next->reads[sample] ? 1 : 0;
  }
  if (differ * kAlikeShare > reads) return "each epoch reads other files";
  if (now->repeats * kAlikeShare > reads) return "an epoch reads files again";
  return "";
}

}  // namespace

Placement::Placement(const Catalog& catalog, std::vector<std::uint64_t> evicting_bytes, IsHeld is_held)
    : catalog_(catalog), evicting_bytes_(std::move(evicting_bytes)), is_held_(std::move(is_held)) {}

Placement::Followed Placement::follow(const Order& order, std::uint64_t epoch) {
  Job job{.order = &order, .epoch = epoch, .reason_for_min = ""};
  if (!evicting_bytes_.empty()) job.reason_for_min = reason_for_min(order, epoch, catalog_.sample_count());
  MutexLock lock(mutex_);
  job.id = next_job_++;
  jobs_.push_back(std::move(job));
  choose();
  return {jobs_.back().id, std::exchange(evictions_, {})};
}

Placement::Evictions Placement::unfollow(JobId job) {
  MutexLock lock(mutex_);
  std::erase_if(jobs_, [&](const Job& each) { return each.id == job; });
  choose();
  return std::exchange(evictions_, {});
}

void Placement::choose() {
  const bool several = jobs_.size() > 1;
  const std::string reason = several         ? "several orders are read at once"
                             : jobs_.empty() ? ""
                                             : jobs_.front().reason_for_min;
  if (!reason.empty() && !evicting_bytes_.empty()) {
    start_min();
  } else {
    min_.reset();
    for (Job& job : jobs_) job.uses.reset();
  }
  why_ = jobs_.empty() ? "no order known" : reason.empty() ? "each epoch reads the same files" : reason;
  evicts_.store(min_ != nullptr);
}

void Placement::start_min() {
  if (sizes_.empty()) sizes_ = sample_sizes(catalog_, SampleSize::kPagesInStore);
  for (Job& job : jobs_) {
    if (job.uses != nullptr) continue;
    job.uses = std::make_unique<NextUses>(*job.order, sizes_.size(), job.epoch);
    align(job);
  }
  outside_.assign(sizes_.size(), {});  // they are times of a clock that may begin again
  min_ = std::make_unique<PolicyStack>();
  for (std::size_t tier = 0; tier < evicting_bytes_.size(); ++tier) {
    min_->add(make_policy(PolicyKind::kMin, {.capacity_bytes = pages_in(evicting_bytes_[tier]),
                                             .sizes = sizes_,
                                             .on_evict = [this, tier](SampleIndex sample) {
                                               evictions_.push_back({tier, sample});
                                             }}));
  }
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    for (std::size_t tier = 0; tier < evicting_bytes_.size(); ++tier) {
      if (is_held_(tier, sample)) refresh(tier, sample);
    }
  }
  evict_what_is_not_wanted();
}

// The clock of the job that is furthest on.
std::uint64_t Placement::clock() const {
  std::uint64_t clock = 0;
  for (const Job& each : jobs_) {
    if (each.uses != nullptr) clock = std::max(clock, each.offset + each.uses->now());
  }
  return clock;
}

void Placement::align(Job& job) {
  job.offset = clock() - job.uses->now();
}

std::uint64_t Placement::upcoming(SampleIndex sample) const {
  std::uint64_t soonest = kNeverUsed;
  for (const Job& job : jobs_) {
    const std::uint64_t use = job.uses->upcoming(sample);
    if (use != kNeverUsed) soonest = std::min(soonest, job.offset + use);
  }
  return soonest != kNeverUsed ? soonest : upcoming_outside(sample);
}

// Consumes the earliest next use; returns the one after it, over all jobs.
std::uint64_t Placement::take(SampleIndex sample) {
  Job* reader = nullptr;
  std::uint64_t soonest = kNeverUsed;
  for (Job& job : jobs_) {
    const std::uint64_t use = job.uses->upcoming(sample);
    if (use == kNeverUsed || job.offset + use >= soonest) continue;
    soonest = job.offset + use;
    reader = &job;
  }
  if (reader != nullptr) {
    static_cast<void>(reader->uses->take(sample));
  } else {
    note_outside(sample);
  }
  return upcoming(sample);
}

// For samples that are in no order: a validation set, for instance, which is read after each epoch. The next read is
// expected after the interval that lay between the last two.
void Placement::note_outside(SampleIndex sample) {
  const std::uint64_t now = clock();
  OutsideUse& use = outside_[sample];
  if (use.last == now) return;
  use = {now, use.last < now ? now - use.last : 0};
}

// A use that is overdue stays expected for one more interval.
std::uint64_t Placement::upcoming_outside(SampleIndex sample) const {
  const OutsideUse& use = outside_[sample];
  const std::uint64_t now = clock();
  if (use.interval == 0 || now > use.last + 2 * use.interval) return kNeverUsed;
  return std::max(use.last + use.interval, now);
}

// Tells the policy the upcoming use of a sample, as if the sample were read now.
void Placement::refresh(std::size_t tier, SampleIndex sample) {
  static_cast<void>((*min_)[tier].read({.sample = sample, .next_use = upcoming(sample), .now = clock()}));
}

// The tiers may hold samples from a time when another policy was in force.
void Placement::evict_what_is_not_wanted() {
  evictions_.clear();
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    for (std::size_t tier = 0; tier < evicting_bytes_.size(); ++tier) {
      if (is_held_(tier, sample) && !(*min_)[tier].holds(sample)) evictions_.push_back({tier, sample});
    }
  }
}

// Reads from memory cause no fetch, so the policy has not heard of them: it is told the upcoming uses of all that it
// holds.
Placement::Evictions Placement::enter(JobId job, std::uint64_t epoch) {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(jobs_, job, &Job::id);
  HEADRACE_ASSERT(found != jobs_.end());
  found->epoch = epoch;
  if (min_ == nullptr) return {};
  found->uses->enter(epoch);
  align(*found);
  for (std::size_t tier = 0; tier < min_->size(); ++tier) {
    for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
      if ((*min_)[tier].holds(sample)) refresh(tier, sample);
    }
  }
  return std::exchange(evictions_, {});
}

Placement::Evictions Placement::on_read(SampleIndex sample) {
  MutexLock lock(mutex_);
  if (min_ != nullptr) min_->read({.sample = sample, .next_use = take(sample), .now = clock()});
  return std::exchange(evictions_, {});
}

Placement::Evictions Placement::on_offer(SampleIndex sample) {
  MutexLock lock(mutex_);
  for (std::size_t tier = 0; min_ != nullptr && tier < min_->size(); ++tier) {
    refresh(tier, sample);
    if ((*min_)[tier].holds(sample)) break;
  }
  return std::exchange(evictions_, {});
}

bool Placement::wants(std::size_t tier, std::optional<SampleIndex> sample) const {
  if (!evicts()) return true;
  MutexLock lock(mutex_);
  return min_ == nullptr || (sample && (*min_)[tier].holds(*sample));
}

std::string Placement::describe() const {
  MutexLock lock(mutex_);
  return (min_ != nullptr ? "min: " : "never-evict: ") + why_;
}

}  // namespace headrace::cache
