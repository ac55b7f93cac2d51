// SPDX-License-Identifier: Apache-2.0
// What the disk tiers hold. Never-evict as long as nothing better is known; Belady's MIN where an order shows that the
// next uses of samples differ by more than an epoch (one rank of several, sampling with replacement).
//
//   Placement placement(catalog, {tier_bytes, ...});
//   for (const Eviction& gone : placement.follow(order, epoch, held)) forget(gone);
//   for (const Eviction& gone : placement.on_read(sample)) forget(gone);   // a fetch that a reader caused
//   if (placement.wants(tier, sample)) write(tier, sample);
//
// The policies are the simulator's. They say what is to be held, the tiers hold it as far as their devices let them: a
// record that is missing although it is wanted is written when it is next fetched.
//
// Thread-safety: every function from any thread. Lock order: mutex_, then nothing.
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
#include "headrace/cache/internal/next_uses.h"
#include "headrace/cache/policy/policy_stack.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

// What each sample takes of a tier: all its records. 4 GiB and more count as 4 GiB.
[[nodiscard]] std::vector<std::uint32_t> record_footprints(const Catalog& catalog);

class Placement {
 public:
  struct Eviction {
    std::size_t tier = 0;
    SampleIndex sample = 0;
  };
  using Evictions = std::vector<Eviction>;
  // Whether a tier has a sample's records already.
  using IsHeld = std::function<bool(std::size_t tier, SampleIndex sample)>;

  // `tier_bytes`: what may be held by each tier, fastest first, where records are evicted.
  Placement(const Catalog& catalog, std::vector<std::uint64_t> tier_bytes);

  // An order that is read from this epoch on; it lasts until unfollow(). Several at once: never-evict.
  [[nodiscard]] Evictions follow(const Order& order, std::uint64_t epoch, const IsHeld& is_held);
  [[nodiscard]] Evictions enter(std::uint64_t epoch);
  void unfollow();

  [[nodiscard]] bool evicts() const { return evicts_.load(std::memory_order_relaxed); }
  [[nodiscard]] Evictions on_read(SampleIndex sample);
  // Somebody would have it held before it is read: it is, if it is needed sooner than what would have to go.
  [[nodiscard]] Evictions on_offer(SampleIndex sample);
  // False: the tier has no place for it, or none any more. nullopt: no sample.
  [[nodiscard]] bool wants(std::size_t tier, std::optional<SampleIndex> sample) const;
  // "never-evict: each epoch reads the same files"
  [[nodiscard]] std::string describe() const;

 private:
  void start_min(const Order& order, std::uint64_t epoch) HEADRACE_REQUIRES(mutex_);
  void stop_min() HEADRACE_REQUIRES(mutex_);
  void refresh(std::size_t tier, SampleIndex sample) HEADRACE_REQUIRES(mutex_);

  const Catalog& catalog_;
  const std::vector<std::uint64_t> tier_bytes_;
  std::vector<std::uint32_t> sizes_;  // by sample, on disk; filled when MIN starts, then constant
  std::atomic<bool> evicts_ = false;

  mutable io::Mutex mutex_;
  unsigned orders_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::string why_ HEADRACE_GUARDED_BY(mutex_) = "no order known";
  std::unique_ptr<NextUses> uses_ HEADRACE_GUARDED_BY(mutex_);      // with stack_
  std::unique_ptr<PolicyStack> stack_ HEADRACE_GUARDED_BY(mutex_);  // null: never-evict
  Evictions evictions_;                                             // of the call under way, which holds the mutex
};

}  // namespace headrace::cache
