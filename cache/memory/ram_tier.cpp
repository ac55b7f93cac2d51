// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/memory/ram_tier.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

using io::MutexLock;

// One bucket (8 bytes) per 32 KiB of budget: chains of one or two for photographs. At least 1024 for budgets that say
// nothing; at most 2^18, since they are allocated at once (32 MiB for all shards).
std::size_t buckets_per_shard(std::uint64_t budget_bytes, std::size_t shards) {
  return std::bit_ceil(std::clamp<std::uint64_t>(budget_bytes / (32 << 10) / shards, 1024, 1 << 18));
}

}  // namespace

void View::reset() {
  bytes_ = {};
  if (Holding* holding = std::exchange(holding_, nullptr)) holding->owner->unpin(*holding);
}

RamTier::RamTier(std::uint64_t budget_bytes, std::function<void()> on_space)
    : budget_bytes_(budget_bytes), on_space_(std::move(on_space)) {
  const std::size_t buckets = buckets_per_shard(budget_bytes, kShardCount);
  const std::size_t ghost_slots = ghost_slots_for(budget_bytes) / kShardCount;
  for (auto& shard : shards_) shard = std::make_unique<RamShard>(buckets, ghost_slots);
}

RamTier::~RamTier() {
  while (evict_one(true)) continue;
  HEADRACE_ASSERT(used_bytes() == 0);  // a view outlived the store
}

Holding* RamTier::pin(ChunkKey key, bool keep) {
  RamShard& shard = shard_of(key);
  MutexLock lock(shard.mutex);
  Holding* holding = shard.find(key);
  if (holding == nullptr || !holding->ready) return nullptr;
  holding->pins += 1;
  shard.touch(*holding, keep);
  shard.counters().hits += 1;
  shard.counters().hit_bytes += holding->size;
  return holding;
}

bool RamTier::contains(ChunkKey key) const {
  RamShard& shard = shard_of(key);
  MutexLock lock(shard.mutex);
  return shard.find(key) != nullptr;
}

RamTier::Claim RamTier::claim(std::unique_ptr<Holding> fresh, Waiter& waiter) {
  RamShard& shard = shard_of(fresh->key);
  MutexLock lock(shard.mutex);
  Holding* found = shard.find(fresh->key);
  const bool in_line = found != nullptr && !found->ready && !found->has_memory;
  if (found == nullptr || (in_line && fresh->has_memory)) {
    fresh->pins = 1;
    fresh->waiters = &waiter;
    if (found == nullptr && !fresh->lent) shard.insert(*fresh);
    return {{}, Claim::Outcome::kOwner, fresh.release()};
  }
  shard.touch(*found, fresh->keep);
  found->ranged |= fresh->ranged;
  const bool is_first_to_wait = fresh->wanted_now && !found->wanted_now.exchange(true);
  if (found->ready) {
    found->pins += 1;
    shard.counters().hits += 1;
    shard.counters().hit_bytes += found->size;
    return {{}, Claim::Outcome::kReady, found};
  }
  waiter.next = found->waiters;
  found->waiters = &waiter;
  const SourceRead* const ahead = is_first_to_wait ? found->source_read.load() : nullptr;
  return {{.is_first = is_first_to_wait, .in_line = in_line, .ahead = ahead}, Claim::Outcome::kWaiting, found};
}

bool RamTier::reserve(std::uint64_t bytes, bool may_evict_kept) {
  while (!try_take(bytes)) {
    if (!evict_one(may_evict_kept)) return try_take(bytes);  // somebody may have given back meanwhile
  }
  return true;
}

void RamTier::unreserve(std::uint64_t bytes) {
  used_bytes_.fetch_sub(bytes);
  tell_space();
}

bool RamTier::try_take(std::uint64_t bytes) {
  const std::uint64_t budget = budget_bytes();
  if (budget == 0) {
    used_bytes_.fetch_add(bytes);
    return true;
  }
  std::uint64_t used = used_bytes_.load();
  do {
    if (used + bytes > budget) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  return true;
}

bool RamTier::evict_one(bool kept_too) {
  const std::size_t first = next_victim_shard_.fetch_add(1, std::memory_order_relaxed);
  for (const bool kept : {false, true}) {
    if (kept && !kept_too) break;
    for (std::size_t i = 0; i < kShardCount; ++i) {
      RamShard& shard = *shards_[(first + i) % kShardCount];
      MutexLock lock(shard.mutex);
      Holding* victim = shard.evict(kept);
      lock.unlock();
      if (victim == nullptr) continue;
      destroy(victim);
      return true;
    }
  }
  return false;
}

Waiter* RamTier::publish(Holding& holding) {
  RamShard& shard = shard_of(holding.key);
  MutexLock lock(shard.mutex);
  Waiter* waiters = std::exchange(holding.waiters, nullptr);
  for (Waiter* waiter = waiters; waiter != nullptr; waiter = waiter->next) holding.pins += 1;
  holding.ready = true;
  if (holding.listed) shard.enqueue(holding);
  return waiters;
}

Waiter* RamTier::abandon(Holding& holding) {
  RamShard& shard = shard_of(holding.key);
  MutexLock lock(shard.mutex);
  if (holding.listed) shard.unlist(holding);
  return std::exchange(holding.waiters, nullptr);
}

bool RamTier::pin_for_write(Holding& holding) {
  MutexLock lock(shard_of(holding.key).mutex);
  if (std::exchange(holding.being_written, true)) return false;
  holding.pins += 1;
  return true;
}

void RamTier::unpin_written(Holding& holding) {
  {
    MutexLock lock(shard_of(holding.key).mutex);
    holding.being_written = false;
  }
  unpin(holding);
}

void RamTier::unpin(Holding& holding) {
  RamShard& shard = shard_of(holding.key);
  MutexLock lock(shard.mutex);
  HEADRACE_ASSERT(holding.pins > 0);
  if (--holding.pins > 0) return;
  const bool stays = holding.listed && !holding.dropped && (budget_bytes() > 0 || holding.ranged);
  if (!stays && holding.listed) shard.unlist(holding);
  lock.unlock();
  if (!stays) return destroy(&holding);
  const std::uint64_t budget = budget_bytes();
  while (budget == 0 && used_bytes() > kStagingBytes && evict_one(false)) continue;
  while (budget > 0 && used_bytes() > budget && evict_one(true)) continue;  // it was made smaller
  tell_space();
}

void RamTier::set_budget(std::uint64_t new_budget) {
  HEADRACE_ASSERT(new_budget > 0 && budget_bytes() > 0);
  budget_bytes_.store(new_budget);
  while (used_bytes() > new_budget && evict_one(true)) continue;
  tell_space();
}

bool RamTier::drop(ChunkKey key) {
  RamShard& shard = shard_of(key);
  MutexLock lock(shard.mutex);
  Holding* holding = shard.find(key);
  if (holding == nullptr) return false;
  if (holding->keep) shard.unkeep(*holding);
  holding->dropped = true;
  if (holding->pins > 0) return true;
  shard.unlist(*holding);
  lock.unlock();
  destroy(holding);
  return true;
}

void RamTier::unkeep(ChunkKey key) {
  {
    RamShard& shard = shard_of(key);
    MutexLock lock(shard.mutex);
    Holding* holding = shard.find(key);
    if (holding == nullptr || !holding->keep) return;
    shard.unkeep(*holding);
  }
  tell_space();
}

void RamTier::forget(ChunkKey key) {
  RamShard& shard = shard_of(key);
  MutexLock lock(shard.mutex);
  Holding* holding = shard.find(key);
  if (holding == nullptr) return;
  shard.unlist(*holding);
  const bool unpinned = holding->pins == 0;
  lock.unlock();
  if (unpinned) destroy(holding);
}

// The holding is unlisted and unpinned: nobody else can reach it.
void RamTier::destroy(Holding* holding) {
  const std::uint64_t cost = holding->cost_bytes;
  delete holding;
  unreserve(cost);
}

void RamTier::tell_space() {
  if (space_wanted_.load()) on_space_();
}

RamTier::Stats RamTier::stats() const {
  Stats total;
  for (const auto& shard : shards_) {
    MutexLock lock(shard->mutex);
    const RamShard::Counters& counters = shard->counters();
    total.hits += counters.hits;
    total.hit_bytes += counters.hit_bytes;
    total.admitted += counters.admitted;
    total.admitted_bytes += counters.admitted_bytes;
    total.evictions += counters.evictions;
    total.samples += shard->count();
  }
  return total;
}

}  // namespace headrace::cache
