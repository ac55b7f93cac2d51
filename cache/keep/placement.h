// SPDX-License-Identifier: Apache-2.0
// Decides what the disk tiers hold, from what is known of the reads to come:
//
//   nothing, or one order whose     never-evict: what came first stays
//   epochs read the same files
//   one order whose epochs read     Belady's MIN with bypass: an order for one rank of several, or one that draws
//   other files, or files twice     with replacement
//   several orders at once          MIN: the next use of a sample is the earliest one in any of them
//
//   Placement placement(catalog, {evicting_bytes, ...}, is_held);
//   const JobId job = placement.follow(order, epoch);
//   tell_tiers(placement.evicts());
//   for (const Eviction& gone : placement.settle()) forget(gone);
//   for (const Eviction& gone : placement.on_read(sample)) forget(gone);   // a fetch that a reader caused
//   if (placement.wants(tier, sample)) write(tier, sample);
//
// The policies are the simulator's. They say what should be held; the tiers hold it as far as their devices let them. A
// record that should be held and is missing is written when the sample is fetched next.
//
// Each order that is followed has positions of its own. All orders count as equally fast, and their positions are
// aligned anew whenever one of them enters an epoch.
//
// Thread-safety: every function from any thread. on_read(), on_offer() and wants() are called by READs: they wait for
// no epoch to be drawn, and for a thousand steps of a policy at most. The others take as long as drawing
// does. Lock order: control_mutex_, mutex_, then what is_held() takes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/keep/next_uses.h"
#include "headrace/cache/keep/policy_stack.h"
#include "headrace/io/buffer.h"
#include "headrace/io/fair_mutex.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

// The capacities of the policies are in pages, as the sizes of the samples are.
[[nodiscard]] constexpr std::uint64_t pages_in(std::uint64_t bytes) {
  return bytes / io::kBufferAlignment;
}

class Placement {
 public:
  struct Eviction {
    std::size_t tier = 0;
    SampleIndex sample = 0;
  };
  using Evictions = std::vector<Eviction>;
  // Whether a tier has a sample's records already.
  using IsHeld = std::function<bool(std::size_t tier, SampleIndex sample)>;

  using JobId = std::uint64_t;

  // `evicting_bytes`: what each tier can hold while records are evicted one by one, fastest tier first.
  Placement(const Catalog& catalog, std::vector<std::uint64_t> evicting_bytes, IsHeld is_held);

  // An order that is read from this epoch on; it lasts until unfollow(). settle() comes after either.
  [[nodiscard]] JobId follow(const Order& order, std::uint64_t epoch);
  [[nodiscard]] Evictions enter(JobId job, std::uint64_t epoch);
  void unfollow(JobId job);
  // Tells the policy that is in force of all that the tiers hold. What it has no room for is evicted.
  [[nodiscard]] Evictions settle();

  // Whether records are evicted one by one. If not, on_read() need not hear of reads.
  [[nodiscard]] bool evicts() const { return evicts_.load(std::memory_order_relaxed); }
  [[nodiscard]] Evictions on_read(SampleIndex sample);
  // Somebody would like the sample to be held before it is read. It is taken in if it is needed sooner than what would
  // have to be evicted for it.
  [[nodiscard]] Evictions on_offer(SampleIndex sample);
  // False: the tier has no room for it, or has evicted it. nullopt: the file is no sample.
  [[nodiscard]] bool wants(std::size_t tier, std::optional<SampleIndex> sample) const;
  // "never-evict: each epoch reads the same files"
  [[nodiscard]] std::string describe() const;

 private:
  // Somebody who reads along an order.
  struct Job {
    JobId id = 0;
    const Order* order = nullptr;
    std::uint64_t epoch = 0;
    std::string reason_for_min;                // empty: never-evict, if this is the only job
    std::unique_ptr<NextUses> uses = nullptr;  // while MIN is in force; null: not drawn yet
    std::uint64_t offset = 0;                  // from its clock to the common one
  };

  // The last read of a sample that is in no order, and how long it came after the read before.
  struct OutsideUse {
    std::uint64_t last = kNeverUsed;
    std::uint64_t interval = 0;  // 0: not known
  };

  // After a job has come or gone.
  void choose() HEADRACE_REQUIRES(control_mutex_) HEADRACE_EXCLUDES(mutex_);
  void end_min(const std::string& why) HEADRACE_REQUIRES(control_mutex_) HEADRACE_EXCLUDES(mutex_);
  void begin_min(const std::string& why) HEADRACE_REQUIRES(control_mutex_) HEADRACE_EXCLUDES(mutex_);
  void draw_missing_uses() HEADRACE_REQUIRES(control_mutex_) HEADRACE_EXCLUDES(mutex_);
  [[nodiscard]] std::unique_ptr<PolicyStack> make_min();
  [[nodiscard]] Evictions refresh_all() HEADRACE_REQUIRES(control_mutex_) HEADRACE_EXCLUDES(mutex_);
  // `step` for each sample, under mutex_, of which a READ that waits gets hold every few hundred samples; what is
  // evicted meanwhile.
  template <typename Step>
  [[nodiscard]] Evictions for_each_sample(Step step) HEADRACE_REQUIRES(control_mutex_) HEADRACE_EXCLUDES(mutex_);
  [[nodiscard]] Job& job_of(JobId id) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t clock() const HEADRACE_REQUIRES(mutex_);  // common to the jobs
  void align(Job& job) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t upcoming(SampleIndex sample) const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t take(SampleIndex sample) HEADRACE_REQUIRES(mutex_);
  void note_outside(SampleIndex sample) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t upcoming_outside(SampleIndex sample) const HEADRACE_REQUIRES(mutex_);
  void refresh(PolicyStack& min, std::size_t tier, SampleIndex sample) HEADRACE_REQUIRES(mutex_);

  const Catalog& catalog_;
  const std::vector<std::uint64_t> evicting_bytes_;  // by tier
  const IsHeld is_held_;
  // By sample, in pages on disk; filled before the first policy, then constant.
  std::vector<std::uint32_t> sizes_;
  std::atomic<bool> evicts_ = false;

  io::Mutex control_mutex_;  // held while epochs are drawn: jobs come, go on and go one after the other
  mutable io::FairMutex mutex_;
  std::vector<Job> jobs_ HEADRACE_GUARDED_BY(mutex_);
  JobId next_job_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::string why_ HEADRACE_GUARDED_BY(mutex_) = "no order known";
  std::unique_ptr<PolicyStack> min_ HEADRACE_GUARDED_BY(mutex_);  // null: not in force
  std::vector<OutsideUse> outside_ HEADRACE_GUARDED_BY(mutex_);   // by sample, for MIN; empty: nothing is known
  Evictions evictions_;                                           // of the call under way, which holds mutex_
};

}  // namespace headrace::cache
