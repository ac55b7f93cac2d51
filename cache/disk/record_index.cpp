// SPDX-License-Identifier: Apache-2.0
// Linear probing. A key's home is its share of the table (Lemire, "A fast alternative to the modulo reduction"), so
// that a table may have any size and grows by a quarter. Erasing shifts back what stood behind: there are no
// tombstones.
#include "headrace/cache/disk/record_index.h"

#include <algorithm>
#include <utility>

namespace headrace::cache {
namespace {

using io::MutexLock;

constexpr std::size_t kFirstSlots = 64;

std::size_t home_of(std::uint64_t key, std::size_t slots) {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(key) * slots) >> 64);
}

// Where `key` is, or the empty position where it would go.
std::size_t position_of(const std::vector<RecordSlot>& slots, std::uint64_t key) {
  std::size_t position = home_of(key, slots.size());
  while (slots[position].key != 0 && slots[position].key != key)
    position = position + 1 == slots.size() ? 0 : position + 1;
  return position;
}

}  // namespace

std::uint64_t record_key(std::uint64_t data_set_key, std::uint64_t name_hash) {
  std::uint64_t key = (data_set_key ^ (name_hash + 0x9e3779b97f4a7c15U)) * 0x94d049bb133111ebU;
  key ^= key >> 32;
  key *= 0xbf58476d1ce4e5b9U;
  key ^= key >> 29;
  return key != 0 ? key : 1;
}

std::optional<RecordSlot> RecordIndex::find(std::uint64_t key) const {
  const Shard& shard = shard_of(key);
  MutexLock lock(shard.mutex);
  if (shard.used == 0) return std::nullopt;
  const RecordSlot& found = shard.slots[position_of(shard.slots, key)];
  if (found.key == 0) return std::nullopt;
  return found;
}

std::optional<RecordSlot> RecordIndex::insert(const RecordSlot& slot) {
  Shard& shard = shard_of(slot.key);
  for (;;) {
    std::size_t size_before = 0;
    {
      MutexLock lock(shard.mutex);
      if (has_room(shard)) return insert_into(shard, slot);
      size_before = shard.slots.size();
    }
    // Allocated, and what it replaces freed, without the lock.
    std::vector<RecordSlot> larger(std::max(kFirstSlots, size_before + size_before / 4));
    MutexLock lock(shard.mutex);
    if (shard.slots.size() == size_before) grow(shard, larger);  // else somebody else was faster
  }
}

std::optional<RecordSlot> RecordIndex::insert_into(Shard& shard, const RecordSlot& slot) {
  RecordSlot& held = shard.slots[position_of(shard.slots, slot.key)];
  const RecordSlot before = std::exchange(held, slot);
  if (before.key != 0) return before;
  shard.used += 1;
  size_.fetch_add(1, std::memory_order_relaxed);
  return std::nullopt;
}

bool RecordIndex::has_room(const Shard& shard) {
  return shard.used + 1 <= shard.slots.size() / 8 * 7;
}

void RecordIndex::grow(Shard& shard, std::vector<RecordSlot>& larger) {
  for (const RecordSlot& slot : shard.slots) {
    if (slot.key != 0) larger[position_of(larger, slot.key)] = slot;
  }
  shard.slots.swap(larger);
}

bool RecordIndex::erase(const RecordSlot& slot) {
  Shard& shard = shard_of(slot.key);
  MutexLock lock(shard.mutex);
  if (shard.used == 0) return false;
  const std::size_t position = position_of(shard.slots, slot.key);
  if (!(shard.slots[position] == slot)) return false;
  erase_at(shard, position);
  size_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

bool RecordIndex::replace(const RecordSlot& before, const RecordSlot& after) {
  Shard& shard = shard_of(before.key);
  MutexLock lock(shard.mutex);
  if (shard.used == 0) return false;
  RecordSlot& held = shard.slots[position_of(shard.slots, before.key)];
  if (!(held == before)) return false;
  held = after;
  return true;
}

std::vector<RecordSlot> RecordIndex::slots_in(std::uint64_t first_block, std::uint64_t end_block) const {
  std::vector<RecordSlot> found;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    for (const RecordSlot& slot : shard.slots) {
      if (slot.key != 0 && slot.block >= first_block && slot.block < end_block) found.push_back(slot);
    }
  }
  return found;
}

// Moves back every slot of the run behind `hole` that may stand there without passing its home.
void RecordIndex::erase_at(Shard& shard, std::size_t hole) {
  std::vector<RecordSlot>& slots = shard.slots;
  std::size_t next = hole;
  for (;;) {
    next = next + 1 == slots.size() ? 0 : next + 1;
    if (slots[next].key == 0) break;
    const std::size_t home = home_of(slots[next].key, slots.size());
    const bool home_in_between = hole <= next ? (home > hole && home <= next) : (home > hole || home <= next);
    if (home_in_between) continue;
    slots[hole] = slots[next];
    hole = next;
  }
  slots[hole] = RecordSlot{};
  shard.used -= 1;
}

}  // namespace headrace::cache
