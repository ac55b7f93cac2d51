// SPDX-License-Identifier: Apache-2.0
// Where a disk tier's records lie: 32 bytes per record, in sharded open-addressing tables that are 7/8 full at most.
//
//   index.insert({key, payload_hash, identity_hash, block, payload_bytes});
//   if (auto slot = index.find(key)) read(slot->block, slot->payload_bytes);
//
// Thread-safety: every function from any thread. Lock order: a shard's lock is a leaf.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::cache {

struct RecordSlot {
  std::uint64_t key = 0;  // record_key(); 0: empty
  std::uint64_t payload_hash = 0;
  std::uint64_t identity_hash = 0;
  std::uint32_t block = 0;  // of the whole tier: segment place * blocks per segment + block within the segment
  std::uint32_t payload_bytes = 0;
  friend bool operator==(const RecordSlot&, const RecordSlot&) = default;
};
static_assert(sizeof(RecordSlot) == 32);

// The key of a record: which data set, and which path and chunk in it. Never 0.
[[nodiscard]] std::uint64_t record_key(std::uint64_t data_set_key, std::uint64_t name_hash);

class RecordIndex {
 public:
  [[nodiscard]] std::optional<RecordSlot> find(std::uint64_t key) const;
  // The record that was there before under the same key, if any.
  std::optional<RecordSlot> insert(const RecordSlot& slot);
  // Takes out exactly this record; false when another one (or none) is there by now.
  bool erase(const RecordSlot& slot);
  // Puts `after` in the place of exactly `before`, which has the same key; false when that is not there any more.
  bool replace(const RecordSlot& before, const RecordSlot& after);
  // Every record with first_block <= block < end_block, in no order. Looks at all records: 154 ms for 10 million, so
  // only for a segment that nothing else tells the records of.
  [[nodiscard]] std::vector<RecordSlot> slots_in(std::uint64_t first_block, std::uint64_t end_block) const;
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  // 64: growing one (the only slow step) holds up one read in 64, and only for its share of the records.
  static constexpr std::size_t kShardCount = 64;
  struct Shard {
    mutable io::Mutex mutex;
    std::vector<RecordSlot> slots HEADRACE_GUARDED_BY(mutex);
    std::size_t used HEADRACE_GUARDED_BY(mutex) = 0;
  };

  [[nodiscard]] Shard& shard_of(std::uint64_t key) { return shards_[key % kShardCount]; }
  [[nodiscard]] const Shard& shard_of(std::uint64_t key) const { return shards_[key % kShardCount]; }
  [[nodiscard]] static bool has_room(const Shard& shard) HEADRACE_REQUIRES(shard.mutex);
  static void grow(Shard& shard, std::vector<RecordSlot>& larger) HEADRACE_REQUIRES(shard.mutex);
  std::optional<RecordSlot> insert_into(Shard& shard, const RecordSlot& slot) HEADRACE_REQUIRES(shard.mutex);
  static void erase_at(Shard& shard, std::size_t position) HEADRACE_REQUIRES(shard.mutex);

  std::array<Shard, kShardCount> shards_;
  std::atomic<std::size_t> size_ = 0;
};

}  // namespace headrace::cache
