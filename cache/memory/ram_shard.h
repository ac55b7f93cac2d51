// SPDX-License-Identifier: Apache-2.0
// One shard of the RAM tier: a table of holdings and the queues that decide which of them goes first.
//
// Eviction is S3-FIFO (Yang et al., SOSP 2023): newcomers pass through a small queue and reach the main one only when
// they are read again there or were evicted lately (the ghost table remembers). Holdings that a prefetcher asked to
// keep stand in a queue of their own, which is the last to be emptied.
//
// Thread-safety: every function needs `mutex`, which the RamTier takes. No function allocates or frees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/cache/catalog/chunk.h"
#include "headrace/cache/view.h"
#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class RamTier;

// Somebody who asked for (a part of) a chunk that is being fetched.
struct Waiter {
  Waiter* next = nullptr;
  std::uint64_t offset = 0;           // within the chunk
  std::uint64_t length = UINT64_MAX;  // cut at the chunk's end
  ReadCallback done;
};

// One chunk in memory, or on its way there.
// Ownership: the RamTier's, for as long as it is listed or pinned.
struct Holding {
  enum class Queue : std::uint8_t { kNone, kSmall, kMain, kKept };

  Holding(RamTier& tier, ChunkKey which) : owner(&tier), key(which) {}

  // A view of content that is ready; takes over one pin.
  [[nodiscard]] View view(TierKind from, std::uint64_t offset, std::uint64_t length);
  [[nodiscard]] static Holding* of(const View& view) { return view.holding_; }  // null: of a view of nothing
  [[nodiscard]] std::span<const std::byte> content() const { return {data, size}; }

  // Constant once ready (the fetch writes them before).
  RamTier* owner;
  ChunkKey key;
  std::uint64_t cost_bytes = 0;  // reserved in the budget: the buffer's capacity; 0 until that has succeeded
  io::Buffer buffer;             // empty while a tier writes from it; `data` stays good
  std::byte* data = nullptr;
  std::size_t size = 0;
  TierKind fetched_from = TierKind::kSource;

  // Guarded by the shard's mutex.
  bool ready = false;
  bool listed = false;         // in the table: new readers find it
  bool being_written = false;  // a disk tier has the buffer
  bool dropped = false;        // goes when the last pin does
  bool keep = false;
  bool ranged = false;  // read by ranges: the next range is expected to want it
  Queue queue = Queue::kNone;
  std::uint8_t uses = 0;  // since it entered its queue, at most kUsesMax
  std::uint32_t pins = 0;
  Waiter* waiters = nullptr;
  Holding* bucket_next = nullptr;
  Holding* previous = nullptr;
  Holding* next = nullptr;
};

// Doubly linked through Holding::previous and next; the front is the newest.
class HoldingList {
 public:
  void push_front(Holding& holding);
  void remove(Holding& holding);
  [[nodiscard]] Holding* back() const { return tail_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  Holding* head_ = nullptr;
  Holding* tail_ = nullptr;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

class RamShard {
 public:
  struct Counters {
    std::uint64_t hits = 0;
    std::uint64_t hit_bytes = 0;
    std::uint64_t admitted = 0;
    std::uint64_t admitted_bytes = 0;
    std::uint64_t evictions = 0;
  };

  explicit RamShard(std::size_t bucket_count);

  [[nodiscard]] Holding* find(ChunkKey key) HEADRACE_REQUIRES(mutex);
  void insert(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Puts a ready holding in its queue.
  void enqueue(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Counts a hit, and moves the holding to the kept queue when asked.
  void touch(Holding& holding, bool keep) HEADRACE_REQUIRES(mutex);
  void unkeep(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Out of the table and its queue: new readers no longer find it.
  void unlist(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Unlists the unpinned holding that is worth least; nullptr when none may go.
  [[nodiscard]] Holding* evict(bool kept_too) HEADRACE_REQUIRES(mutex);
  [[nodiscard]] std::size_t count() const HEADRACE_REQUIRES(mutex);
  [[nodiscard]] Counters& counters() HEADRACE_REQUIRES(mutex) { return counters_; }

  io::Mutex mutex;

 private:
  [[nodiscard]] Holding*& bucket_of(ChunkKey key) HEADRACE_REQUIRES(mutex) {
    return buckets_[hash_of(key) % buckets_.size()];
  }
  [[nodiscard]] std::uint32_t& ghost_of(ChunkKey key) HEADRACE_REQUIRES(mutex) {
    return ghosts_[hash_of(key) % ghosts_.size()];
  }
  [[nodiscard]] HoldingList& list_of(Holding::Queue queue) HEADRACE_REQUIRES(mutex);
  void move_to(Holding& holding, Holding::Queue queue) HEADRACE_REQUIRES(mutex);
  [[nodiscard]] Holding* pick_small() HEADRACE_REQUIRES(mutex);
  [[nodiscard]] Holding* pick_main() HEADRACE_REQUIRES(mutex);
  [[nodiscard]] Holding* pick_kept() HEADRACE_REQUIRES(mutex);

  std::vector<Holding*> buckets_ HEADRACE_GUARDED_BY(mutex);
  // Hashes of what left the small queue lately; a newer one overwrites an older one of the same place.
  std::vector<std::uint32_t> ghosts_ HEADRACE_GUARDED_BY(mutex);
  HoldingList small_ HEADRACE_GUARDED_BY(mutex);
  HoldingList main_ HEADRACE_GUARDED_BY(mutex);
  HoldingList kept_ HEADRACE_GUARDED_BY(mutex);
  Counters counters_ HEADRACE_GUARDED_BY(mutex);
};

}  // namespace headrace::cache
