// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/placement.h"

#include <algorithm>
#include <utility>

#include "headrace/cache/sample_sizes.h"

namespace headrace::cache {
namespace {

using io::FairLock;
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

Placement::JobId Placement::follow(const Order& order, std::uint64_t epoch) {
  MutexLock control(control_mutex_);
  Job job{.order = &order, .epoch = epoch, .reason_for_min = ""};
  if (!evicting_bytes_.empty()) job.reason_for_min = reason_for_min(order, epoch, catalog_.sample_count());
  JobId id = 0;
  {
    FairLock lock(mutex_);
    id = job.id = next_job_++;
    jobs_.push_back(std::move(job));
  }
  choose();
  return id;
}

void Placement::unfollow(JobId job) {
  MutexLock control(control_mutex_);
  Job gone;  // let go without the mutex
  {
    FairLock lock(mutex_);
    const std::uint64_t before = clock();
    gone = std::move(job_of(job));
    std::erase_if(jobs_, [&](const Job& each) { return each.id == job; });
    const std::uint64_t back = before - clock();  // what was told to the policy are times of a clock that rises
    for (Job& each : jobs_) each.offset += back;
  }
  choose();
}

void Placement::choose() {
  std::string reason;
  bool has_jobs = false;
  {
    FairLock lock(mutex_);
    has_jobs = !jobs_.empty();
    reason = jobs_.size() > 1 ? "several orders are read at once" : has_jobs ? jobs_.front().reason_for_min : "";
  }
  const std::string why = !has_jobs ? "no order known" : reason.empty() ? "each epoch reads the same files" : reason;
  !reason.empty() && !evicting_bytes_.empty() ? begin_min(why) : end_min(why);
}

void Placement::end_min(const std::string& why) {
  std::unique_ptr<PolicyStack> ended;  // let go without the mutex: with millions of samples that takes a while
  std::vector<std::unique_ptr<NextUses>> uses;
  std::vector<OutsideUse> outside;
  FairLock lock(mutex_);
  evicts_.store(false);
  why_ = why;
  ended = std::exchange(min_, nullptr);
  outside.swap(outside_);  // times of a clock that begins again
  for (Job& job : jobs_) uses.push_back(std::exchange(job.uses, nullptr));
}

// What the tiers take in until it is in force, settle() finds.
void Placement::begin_min(const std::string& why) {
  if (sizes_.empty()) sizes_ = sample_sizes(catalog_, SampleSize::kPagesInStore);
  draw_missing_uses();
  std::unique_ptr<PolicyStack> min = evicts() ? nullptr : make_min();
  std::vector<OutsideUse> outside(min ? sizes_.size() : 0);
  if (min) {
    static_cast<void>(for_each_sample([&](SampleIndex sample) HEADRACE_REQUIRES(mutex_) {
      for (std::size_t tier = 0; tier < evicting_bytes_.size(); ++tier) {
        if (is_held_(tier, sample)) refresh(*min, tier, sample);
      }
    }));
  }
  FairLock lock(mutex_);
  why_ = why;
  if (!min) return;
  min_ = std::move(min);
  outside_.swap(outside);
  evicts_.store(true);
}

void Placement::draw_missing_uses() {
  for (;;) {
    JobId id = 0;
    const Order* order = nullptr;
    std::uint64_t epoch = 0;
    {
      FairLock lock(mutex_);
      const auto found = std::ranges::find_if(jobs_, [](const Job& each) { return each.uses == nullptr; });
      if (found == jobs_.end()) return;
      id = found->id;
      order = found->order;
      epoch = found->epoch;
    }
    auto uses = std::make_unique<NextUses>(draw_uses(*order, sizes_.size(), epoch));
    FairLock lock(mutex_);
    Job& job = job_of(id);
    job.uses = std::move(uses);
    align(job);
  }
}

std::unique_ptr<PolicyStack> Placement::make_min() {
  auto min = std::make_unique<PolicyStack>();
  for (std::size_t tier = 0; tier < evicting_bytes_.size(); ++tier) {
    min->add(make_policy(PolicyKind::kMin, {.capacity_bytes = pages_in(evicting_bytes_[tier]),
                                            .sizes = sizes_,
                                            .on_evict = [this, tier](SampleIndex sample) {
                                              evictions_.push_back({tier, sample});
                                            }}));
  }
  return min;
}

// Some 2 us a sample, most of it to find whether a tier holds it.
template <typename Step>
Placement::Evictions Placement::for_each_sample(Step step) {
  constexpr std::size_t kAtOnce = 512;
  Evictions gone;
  for (std::size_t first = 0; first < sizes_.size(); first += kAtOnce) {
    FairLock lock(mutex_);
    const std::size_t end = std::min(first + kAtOnce, sizes_.size());
    for (std::size_t sample = first; sample < end; ++sample) step(static_cast<SampleIndex>(sample));
    gone.insert(gone.end(), evictions_.begin(), evictions_.end());
    evictions_.clear();
  }
  return gone;
}

// Tells the policy the upcoming uses of all that it holds: of reads from memory, which cause no fetch, it has not
// heard.
Placement::Evictions Placement::refresh_all() {
  return for_each_sample([this](SampleIndex sample) HEADRACE_REQUIRES(mutex_) {
    for (std::size_t tier = 0; tier < min_->size(); ++tier) {
      if ((*min_)[tier].holds(sample)) refresh(*min_, tier, sample);
    }
  });
}

Placement::Evictions Placement::settle() {
  MutexLock control(control_mutex_);
  if (!evicts()) return {};
  return for_each_sample([this](SampleIndex sample) HEADRACE_REQUIRES(mutex_) {
    for (std::size_t tier = 0; tier < min_->size(); ++tier) {
      const Policy& policy = (*min_)[tier];
      if (!policy.holds(sample) && !is_held_(tier, sample)) continue;
      refresh(*min_, tier, sample);
      if (!policy.holds(sample)) evictions_.push_back({tier, sample});
    }
  });
}

Placement::Job& Placement::job_of(JobId id) {
  const auto found = std::ranges::find(jobs_, id, &Job::id);
  HEADRACE_ASSERT(found != jobs_.end());
  return *found;
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
    if (job.uses == nullptr) continue;
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
    if (job.uses == nullptr) continue;
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
  if (outside_.empty()) return kNeverUsed;
  const OutsideUse& use = outside_[sample];
  const std::uint64_t now = clock();
  if (use.interval == 0 || now > use.last + 2 * use.interval) return kNeverUsed;
  return std::max(use.last + use.interval, now);
}

// Tells the policy the upcoming use of a sample, as if the sample were read now.
void Placement::refresh(PolicyStack& min, std::size_t tier, SampleIndex sample) {
  static_cast<void>(min[tier].read({.sample = sample, .next_use = upcoming(sample), .now = clock()}));
}

Placement::Evictions Placement::enter(JobId job, std::uint64_t epoch) {
  MutexLock control(control_mutex_);
  const Order* order = nullptr;
  std::shared_ptr<const UsesAhead> before;  // lives on to the end: whoever lets go of it has much to do
  {
    FairLock lock(mutex_);
    Job& entering = job_of(job);
    entering.epoch = epoch;
    if (min_ == nullptr) return {};
    order = entering.order;
    before = entering.uses->ahead();
    entering.uses->pass_to(before->begin_of(epoch));
    align(entering);
  }
  std::shared_ptr<const UsesAhead> ahead = draw_uses(*order, sizes_.size(), epoch, before.get());
  {
    FairLock lock(mutex_);
    Job& entering = job_of(job);
    entering.uses->enter(std::move(ahead));
    align(entering);
  }
  return refresh_all();
}

Placement::Evictions Placement::on_read(SampleIndex sample) {
  FairLock lock(mutex_);
  if (min_ != nullptr) min_->read({.sample = sample, .next_use = take(sample), .now = clock()});
  return std::exchange(evictions_, {});
}

Placement::Evictions Placement::on_offer(SampleIndex sample) {
  FairLock lock(mutex_);
  for (std::size_t tier = 0; min_ != nullptr && tier < min_->size(); ++tier) {
    refresh(*min_, tier, sample);
    if ((*min_)[tier].holds(sample)) break;
  }
  return std::exchange(evictions_, {});
}

bool Placement::wants(std::size_t tier, std::optional<SampleIndex> sample) const {
  if (!evicts()) return true;
  FairLock lock(mutex_);
  return min_ == nullptr || (sample && (*min_)[tier].holds(*sample));
}

std::string Placement::describe() const {
  FairLock lock(mutex_);
  return (min_ != nullptr ? "min: " : "never-evict: ") + why_;
}

}  // namespace headrace::cache
