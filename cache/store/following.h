// SPDX-License-Identifier: Apache-2.0
// Makes the disk tiers hold what the orders that are read need next: Placement decides, this carries it out.
//
//   TierFollower follower({.catalog = catalog, .identities = identities, .tiers = tiers, ...});
//   auto following = follower.follow(order, {.epoch = 3});
//   if (follower.wants(tier, entry)) write(tier, entry);
//
// Thread-safety: every function from any thread. Lock order: epoch_mutex_, then those of the source.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/cache/disk/disk_tier.h"
#include "headrace/cache/following.h"
#include "headrace/cache/keep/placement.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/order.h"
#include "headrace/cache/shared/shared_tier.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/store/identities.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

using DiskTiers = std::vector<std::unique_ptr<DiskTier>>;  // fastest first

class TierFollower {
 public:
  // All of these outlive the follower.
  struct Parts {
    const Catalog& catalog;
    const Identities& identities;
    const DiskTiers& tiers;
    const RamTier& ram;
    const Source& source;
    const SharedTier* shared;  // null: no other node is there to share with
  };
  explicit TierFollower(const Parts& parts);

  // What is read from now on follows the order, for as long as the handle lives.
  [[nodiscard]] std::unique_ptr<Following> follow(const Order& order, const FollowOptions& options);

  // Whether an order is followed. Waits for nobody: a READ asks.
  [[nodiscard]] bool follows() const { return follows_.load(std::memory_order_relaxed); }
  // Whether note_use() has to hear of reads.
  [[nodiscard]] bool watches() const { return placement_.evicts(); }
  // Somebody reads the file: this counts as one use.
  void note_use(EntryId entry);
  // Somebody would like the tiers to hold the file before it is read.
  void offer(EntryId entry);
  // False: the tier has no room for the file, or it is needed later than what the tier holds.
  [[nodiscard]] bool wants(std::size_t tier, EntryId entry) const;

  [[nodiscard]] std::string describe() const { return placement_.describe(); }
  // nullopt: no order is followed.
  [[nodiscard]] std::optional<EpochReads> epoch_reads() const;

 private:
  class Handle;
  struct FollowedEpoch {
    const Order* order = nullptr;  // null: none is followed
    FollowOptions options;
    EpochReads reads_before;                            // of all epochs before
    std::optional<std::uint64_t> minimum_source_reads;  // once somebody asked: it takes a sort of the epoch
  };

  void set_epoch(const FollowedEpoch& epoch);
  // After whatever may have changed the policy.
  void carry_out();
  void evict(const Placement::Evictions& evictions);
  [[nodiscard]] EpochReads reads_so_far() const;  // of all epochs
  [[nodiscard]] bool has_record(std::size_t tier, SampleIndex sample) const;

  const Parts parts_;
  Placement placement_;
  io::Mutex evicting_mutex_;  // what the tiers are told
  std::atomic<bool> follows_ = false;
  mutable io::Mutex epoch_mutex_;  // held while an epoch is drawn and sorted
  mutable FollowedEpoch epoch_ HEADRACE_GUARDED_BY(epoch_mutex_);
};

}  // namespace headrace::cache
