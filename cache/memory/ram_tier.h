// SPDX-License-Identifier: Apache-2.0
// The RAM tier: which chunks are in memory, who pins them, who waits for them, and the byte budget over all of it.
//
//   if (Holding* hit = tier.pin(key, false)) return hit->view(...);          // the view's end unpins
//   Claim claim = tier.claim(std::make_unique<Holding>(tier, key), waiter);  // the owner fetches, others wait
//   if (tier.reserve(cost, true)) ... fill the buffer ... answer(tier.publish(*claim.holding));
//
// Budget: every content buffer of the store is reserved before it is allocated and given back after it is freed, so
// used_bytes() never exceeds the budget, pinned views and fetches in flight included. A budget of 0 is no limit on what
// is pinned, but nothing stays once unpinned, save kStagingBytes of what is being read by ranges.
//
// Thread-safety: every function from any thread. Lock order: none is held while another is taken.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "headrace/cache/memory/ram_shard.h"

namespace headrace::cache {

// 32 MiB: eight streams of large files, each with the chunk that it is in; only used when the budget is 0.
inline constexpr std::uint64_t kStagingBytes = 32ULL << 20;

class RamTier {
 public:
  // `on_space` runs whenever bytes became free or evictable while want_space(true) holds; any thread, under no lock.
  RamTier(std::uint64_t budget_bytes, std::function<void()> on_space);
  ~RamTier();  // every view and every fetch is gone by then
  RamTier(const RamTier&) = delete;
  RamTier& operator=(const RamTier&) = delete;

  // A holding that is ready, with a pin for the caller; nullptr: not in memory.
  [[nodiscard]] Holding* pin(ChunkKey key, bool keep);

  [[nodiscard]] bool contains(ChunkKey key) const;  // in memory or on its way

  // A fetch that is under way.
  struct Wanted {
    bool is_first = false;  // until now nobody waited for it; the rest is only said then
    bool in_line = false;   // it had no memory yet
    // Its read of the source, if it has got there. It may have ended: only its address is of use.
    const SourceRead* ahead = nullptr;
  };
  struct Claim : Wanted {  // of a fetch: kWaiting
    enum class Outcome : std::uint8_t { kReady, kWaiting, kOwner };
    Outcome outcome = Outcome::kReady;
    Holding* holding = nullptr;  // kReady: pinned for the caller; kOwner: to be fetched, pinned for the fetch
  };
  // kReady leaves the waiter alone; otherwise it is linked to the holding until publish() or abandon().
  // The wishes of `fresh` (keep, ranged, wanted_now) are added to what is there already. If `fresh` has memory, and a
  // fetch that is under way has none, the caller owns a second fetch, which nobody else finds.
  [[nodiscard]] Claim claim(std::unique_ptr<Holding> fresh, Waiter& waiter);

  // Takes `bytes` of the budget, evicting what is unpinned; false when pinned content leaves too little.
  [[nodiscard]] bool reserve(std::uint64_t bytes, bool may_evict_kept);
  void unreserve(std::uint64_t bytes);
  // Whether on_space() is wanted. Announce first, then try to reserve once more, then wait: no wake-up is lost.
  void want_space(bool wanted) { space_wanted_.store(wanted); }

  // The content is there. Returns the waiters, each with a pin of its own; the fetch's pin stays.
  [[nodiscard]] Waiter* publish(Holding& holding);
  // The fetch failed: nobody finds the holding any more. Returns the waiters, unpinned; the fetch's pin stays.
  [[nodiscard]] Waiter* abandon(Holding& holding);
  // A pin for a tier that is about to write from the holding's buffer; false when one does already.
  [[nodiscard]] bool pin_for_write(Holding& holding);
  void unpin_written(Holding& holding);
  void unpin(Holding& holding);

  // Goes now, or with its last pin. False: not here.
  bool drop(ChunkKey key);
  // From kept to ordinary.
  void unkeep(ChunkKey key);
  // Nobody finds it from now on, pinned or not: its content is no longer right.
  void forget(ChunkKey key);

  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_bytes_.load(std::memory_order_relaxed); }
  // What is too much goes at once, kept or not; what is pinned, with its last pin. Neither budget is 0.
  void set_budget(std::uint64_t budget_bytes);
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  struct Stats : RamShard::Counters {
    std::uint64_t samples = 0;
  };
  [[nodiscard]] Stats stats() const;

 private:
  // 16: with a lock held for about 50 ns, a dozen cores rarely meet in one shard.
  static constexpr std::size_t kShardCount = 16;

  [[nodiscard]] RamShard& shard_of(ChunkKey key) const { return *shards_[(hash_of(key) >> 40) % kShardCount]; }
  [[nodiscard]] bool try_take(std::uint64_t bytes);
  [[nodiscard]] bool evict_one(bool kept_too);
  void destroy(Holding* holding);
  void tell_space();

  std::atomic<std::uint64_t> budget_bytes_;
  const std::function<void()> on_space_;
  std::array<std::unique_ptr<RamShard>, kShardCount> shards_;
  std::atomic<std::uint64_t> used_bytes_ = 0;
  std::atomic<bool> space_wanted_ = false;
  std::atomic<std::size_t> next_victim_shard_ = 0;
};

}  // namespace headrace::cache
