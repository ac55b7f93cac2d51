// SPDX-License-Identifier: Apache-2.0
// One shard of the RAM tier: a table of holdings and the queues that decide which of them is evicted first.
//
// S3-FIFO decides (keep/s3_fifo.h, the same code that the simulator runs), with one exception: a holding that somebody
// asked to keep stands in a queue of its own, which is emptied last.
//
// Thread-safety: every function needs `mutex`, which the RamTier takes. No function allocates or frees.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/cache/chunk.h"
#include "headrace/cache/keep/s3_fifo.h"
#include "headrace/cache/view.h"
#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class RamTier;
struct SourceRead;

// Somebody who asked for (a part of) a chunk that is being fetched.
struct Waiter {
  Waiter* next = nullptr;
  std::uint64_t offset = 0;           // within the chunk
  std::uint64_t length = UINT64_MAX;  // cut at the chunk's end
  bool is_cut = false;                // both are of a version of the file that is cut into chunks
  bool may_wait = true;               // for memory; false: it holds some already
  ReadCallback done;
};

// One chunk in memory, or on its way there.
// Ownership: the RamTier's, for as long as it is listed or pinned.
struct Holding {
  Holding(RamTier& tier, ChunkKey which) : owner(&tier), key(which) {}

  // A view of content that is ready; takes over one pin.
  [[nodiscard]] View view(TierKind from, std::uint64_t offset, std::uint64_t length);
  [[nodiscard]] static Holding* of(const View& view) { return view.holding_; }  // null: of a view of nothing
  [[nodiscard]] std::span<const std::byte> content() const { return {data, size}; }

  // False: its fetch waits in line for a part of the budget. Who holds memory must not wait for such a fetch.
  std::atomic<bool> has_memory = false;
  std::atomic<bool> wanted_now = false;  // by somebody who waits for the fetch, be it a read ahead or not
  std::atomic<const SourceRead*> source_read = nullptr;  // by which the fetch reads the source, or did
  // The memory belongs to the read that fetches it, and to its budget: nobody else finds the holding.
  bool lent = false;  // constant

  // Constant once ready (the fetch writes them before).
  RamTier* owner;
  ChunkKey key;
  std::uint64_t cost_bytes = 0;  // reserved in the budget: the buffer's capacity; 0 until that has succeeded
  io::Buffer buffer;             // empty while a tier writes from it; `data` stays good
  std::byte* data = nullptr;
  std::size_t size = 0;
  TierKind fetched_from = TierKind::kSource;
  Identity identity;  // the version of the file that the bytes are of

  // Guarded by the shard's mutex.
  bool ready = false;
  bool listed = false;         // in the table: new readers find it
  bool being_written = false;  // a disk tier has the buffer
  bool dropped = false;        // goes when the last pin does
  bool keep = false;           // evicted last
  bool ranged = false;         // read by ranges: the next range is expected to want it
  bool queued = false;         // ready and listed: in the kept queue if `keep` is set, else in one of S3-FIFO
  S3FifoMark mark = {};
  std::uint32_t pins = 0;
  Waiter* waiters = nullptr;
  Holding* bucket_next = nullptr;
  QueueLink<Holding*> link = {};
};

// Holdings as items of the queues in keep/.
struct HoldingItems {
  using Item = Holding*;
  static constexpr Item kNone = nullptr;
  [[nodiscard]] static QueueLink<Item>& link(Item holding) { return holding->link; }
  [[nodiscard]] static S3FifoMark& mark(Item holding) { return holding->mark; }
  [[nodiscard]] static std::uint64_t bytes(Item holding) { return holding->cost_bytes; }
  [[nodiscard]] static bool may_go(Item holding) { return holding->pins == 0; }
  [[nodiscard]] static std::uint64_t hash(Item holding) { return hash_of(holding->key); }
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

  RamShard(std::size_t bucket_count, std::size_t ghost_slots);

  [[nodiscard]] Holding* find(ChunkKey key) HEADRACE_REQUIRES(mutex);
  void insert(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Puts a holding that has become ready in its queue.
  void enqueue(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Counts a hit, and moves the holding to the kept queue when asked.
  void touch(Holding& holding, bool keep) HEADRACE_REQUIRES(mutex);
  void unkeep(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Out of the table and its queue: new readers no longer find it.
  void unlist(Holding& holding) HEADRACE_REQUIRES(mutex);
  // Unlists the unpinned holding that is worth least; nullptr: all are pinned.
  [[nodiscard]] Holding* evict(bool kept_too) HEADRACE_REQUIRES(mutex);
  [[nodiscard]] std::size_t count() const HEADRACE_REQUIRES(mutex);
  [[nodiscard]] Counters& counters() HEADRACE_REQUIRES(mutex) { return counters_; }

  io::Mutex mutex;

 private:
  [[nodiscard]] Holding*& bucket_of(ChunkKey key) HEADRACE_REQUIRES(mutex) {
    return buckets_[hash_of(key) % buckets_.size()];
  }
  void leave_queue(Holding& holding) HEADRACE_REQUIRES(mutex);
  [[nodiscard]] Holding* evict_kept() HEADRACE_REQUIRES(mutex);

  std::vector<Holding*> buckets_ HEADRACE_GUARDED_BY(mutex);
  HoldingItems items_;  // has no state
  S3Fifo<HoldingItems> fifo_ HEADRACE_GUARDED_BY(mutex);
  ItemQueue<HoldingItems> kept_ HEADRACE_GUARDED_BY(mutex);
  Counters counters_ HEADRACE_GUARDED_BY(mutex);
};

}  // namespace headrace::cache
