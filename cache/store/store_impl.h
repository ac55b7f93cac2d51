// SPDX-License-Identifier: Apache-2.0
// The Store's insides. store.cpp: opening, closing, reads; fetch.cpp: how one chunk gets into memory and into the disk
// tiers; store_placement.cpp: what those hold; gathered_read.cpp: reads that span chunks; warm_job.cpp: filling the
// disk tiers.
//
// The life of a read: the RAM tier has the chunk (a pin, a view, no allocation) | somebody fetches it already (one more
// waiter) | a Fetch is made: it waits for its part of the budget, tries the disk tiers, then the source, hands views to
// the waiters, and the disk tiers write from the same buffer.
//
// Thread-safety: as Store. Lock order: no lock of this layer is held while another is taken or a callback runs, but
// that epoch_mutex_ comes before those of the tiers and the source.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "headrace/cache/disk/disk_tier.h"
#include "headrace/cache/keep/placement.h"
#include "headrace/cache/memory/memory_queue.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/store.h"
#include "headrace/io/mutex.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

class Fetch;

[[nodiscard]] constexpr bool is_ahead(ReadHint hint) {
  return hint == ReadHint::kAhead || hint == ReadHint::kAheadAndKeep;
}

// A part of one chunk, and how it is wanted.
struct ChunkRequest {
  ChunkKey key;
  std::uint64_t offset = 0;  // within the chunk
  std::uint64_t length = UINT64_MAX;
  ReadHint hint = ReadHint::kNow;
  bool ranged = false;
  bool for_warm_job = false;
};

class StoreImpl final : public Store {
 public:
  explicit StoreImpl(Catalog catalog, std::uint64_t ram_bytes);
  ~StoreImpl() override;
  [[nodiscard]] Status start(const StoreOptions& options, std::shared_ptr<SourceRoot> root);

  [[nodiscard]] const Catalog& catalog() const override { return catalog_; }
  [[nodiscard]] std::shared_ptr<const io::UniqueFd> source_directory() const override;
  [[nodiscard]] Result<View> read(EntryId entry) override;
  void read_async(EntryId entry, ReadCallback done, ReadHint hint) override;
  void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done) override;
  void prefetch(EntryId entry, bool keep_in_ram, std::function<void(Status)> done) override;
  void drop(EntryId entry) override;
  void unkeep(EntryId entry) override;
  void set_ram_bytes(std::uint64_t bytes) override { ram_.set_budget(bytes); }
  void set_identity(EntryId entry, const Identity& identity) override;
  void set_vanished(EntryId entry) override;
  void warm(EntryId entry, std::function<void(Status)> done) override;
  [[nodiscard]] bool is_on_disk(EntryId entry) const override;
  [[nodiscard]] std::unique_ptr<Following> follow(const Order& order, const FollowOptions& options) override;
  [[nodiscard]] Status flush() override;
  [[nodiscard]] StoreStats stats() const override;

 private:
  friend class Fetch;
  friend class FollowingImpl;
  friend class GatheredRead;
  friend class PartRead;
  friend class WarmJob;

  void read_chunk(const ChunkRequest& request, ReadCallback done);
  void read_span(EntryId entry, std::uint64_t file_bytes, ChunkRange span, ReadHint hint, bool ranged,
                 ReadCallback done);
  void start_fetch(Holding& holding, const ChunkRequest& request);
  // Whether this is a small read in the middle of a large file, for which the chunk is too much.
  [[nodiscard]] bool is_part(const ChunkRequest& request, std::uint64_t file_bytes);
  void read_part(const ChunkRequest& request, ReadCallback done);
  void read_ahead_of(EntryId entry, std::uint64_t file_bytes, std::uint32_t chunk);
  // Of a file as it is known to be now. Errors: kInvalidArgument, kNotFound (vanished).
  [[nodiscard]] Result<Identity> identity_of(EntryId entry) const;
  [[nodiscard]] std::uint32_t chunks_of(EntryId entry) const;  // 1 for what is no file
  // nullopt: vanished.
  void set_changed(EntryId entry, const std::optional<Identity>& identity);
  [[nodiscard]] Status open_tiers(const StoreOptions& options);
  [[nodiscard]] bool is_held(const RecordId& record) const;  // by a disk tier
  void make_placement();
  void enter_epoch(const Order& order, const FollowOptions& options);
  void end_following(Placement::JobId job);
  // A fetch of the file, which counts as one use of it.
  void note_use(EntryId entry);
  // A read that needs no fetch. With a RAM budget it was mostly fetched ahead, and is counted; without, it only comes
  // while others read or write the file: with a slow disk often, and what is not counted would look needed for ever.
  void note_use_in_memory(const ChunkRequest& request);
  void offer(EntryId entry);  // to the disk tiers, before it is read
  void carry_out(const Placement::Evictions& evictions);
  void forget_evicted(const Placement::Evictions& evictions);
  [[nodiscard]] bool has_record(std::size_t tier, SampleIndex sample) const;
  [[nodiscard]] bool wants(std::size_t tier, EntryId entry) const;
  // Has the first tier before `end` that takes it write a copy, unless too much is waiting to be written already.
  void copy_to_tier(Holding& holding, const RecordId& record, std::size_t end);
  void answer(Waiter* waiters, Holding& holding, TierKind from);
  void answer_error(Waiter* waiters, const io::Error& error);

  const Catalog catalog_;
  io::TimerThread timers_{"hr-timer"};
  RamTier ram_;
  MemoryQueue memory_;
  std::unique_ptr<Source> source_;
  std::vector<std::unique_ptr<DiskTier>> tiers_;  // fastest first
  std::unique_ptr<Placement> placement_;          // what they hold
  std::atomic<bool> closing_ = false;

  // Where parts of large files were read lately: a hash of where each began, and of where it ended. 256: more streams
  // than are read at once, and so few places that random reads seldom meet one.
  std::array<std::atomic<std::uint64_t>, 256> recent_places_ = {};

  std::atomic<std::uint64_t> reads_ = 0;
  std::atomic<std::uint64_t> shared_fetches_ = 0;
  std::atomic<std::uint64_t> failures_ = 0;

  // The epoch that is read along an order.
  struct FollowedEpoch {
    const Order* order = nullptr;  // null: none is followed
    FollowOptions options;
    std::uint64_t source_reads_before = 0;
    std::optional<std::uint64_t> minimum_source_reads;  // once somebody asked: takes a sort of the epoch
  };
  [[nodiscard]] std::optional<EpochReads> epoch_reads() const;
  mutable io::Mutex epoch_mutex_;
  mutable FollowedEpoch followed_epoch_ HEADRACE_GUARDED_BY(epoch_mutex_);

  // Identities that are no longer the catalog's; none where the file is gone.
  std::atomic<bool> any_changed_ = false;
  mutable io::Mutex changed_mutex_;
  std::unordered_map<EntryId, std::optional<Identity>> changed_ HEADRACE_GUARDED_BY(changed_mutex_);
};

}  // namespace headrace::cache
