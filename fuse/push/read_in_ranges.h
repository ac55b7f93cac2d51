// SPDX-License-Identifier: Apache-2.0
// What READs have brought into the page cache of large files, page by page, and what of it goes first.
// Pure: no I/O, no threads, no clock.
//
//   ranges.add(sample, {offset, length});
//   while (ranges.bytes() > limit) evict(ranges.take_oldest());
//
// Pages are counted one by one and go by slots of 1 MiB, the oldest first. A slot in which more was read meanwhile is
// passed over once. A slot costs about 150 bytes: 15 MB for random reads all over a file of 100 GB.
//
// Thread-safety: none; one owner.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "headrace/cache/catalog.h"

namespace headrace::fuse {

struct PageRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class ReadInRanges {
 public:
  struct Slot {
    cache::SampleIndex sample = 0;
    PageRange range;
  };

  void add(cache::SampleIndex sample, const PageRange& range);
  // The kernel holds nothing of the file any more, or it is counted elsewhere.
  void forget(cache::SampleIndex sample);
  // Already forgotten when it is returned. There must be one.
  [[nodiscard]] Slot take_oldest();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t slot_count() const { return slot_count_; }
  [[nodiscard]] bool contains(cache::SampleIndex sample) const { return files_.contains(sample); }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kSlotPages = 256;

  struct Pages {
    std::bitset<kSlotPages> read_in;
    bool again = false;  // read in after it was queued
    std::uint64_t ticket = 0;
  };
  struct Queued {
    cache::SampleIndex sample = 0;
    std::uint64_t slot = 0;
    std::uint64_t ticket = 0;  // another one than the slot's: it was forgotten meanwhile
  };

  // nullptr: it was forgotten.
  [[nodiscard]] Pages* find(const Queued& queued);

  std::unordered_map<cache::SampleIndex, std::unordered_map<std::uint64_t, Pages>> files_;
  std::deque<Queued> queue_;  // oldest first
  std::uint64_t tickets_ = 0;
  std::uint64_t bytes_ = 0;
  std::size_t slot_count_ = 0;
};

}  // namespace headrace::fuse
