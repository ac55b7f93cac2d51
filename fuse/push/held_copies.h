// SPDX-License-Identifier: Apache-2.0
// The samples whose copies the store keeps in memory for the mount, because the kernel drops pushed pages.
// Pure: no I/O, no threads, no clock.
//
//   HeldCopies copies(catalog);
//   if (copies.add(sample, limit)) ...;                          // fetch it with kAheadAndKeep
//   copies.add_lost(sample, limit);                              // the same, where nobody fetches it yet:
//   while (auto sample = copies.next_to_fetch()) ...;
//   while (auto sample = copies.next_to_drop(limit)) ...;        // have the store drop it
//
// `limit` is what all copies together may take now; the owner of the budget says so with each call.
//
// Each sample is read once per epoch, so a copy makes way only for a smaller one: as many bytes come from the source
// then, but in fewer reads. What is let in later is smaller still, so that under one limit the number of copies never
// falls, and the exchanging comes to an end.
//
// Thread-safety: none; one owner. Ownership: the catalog outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "headrace/cache/catalog.h"

namespace headrace::fuse {

class HeldCopies {
 public:
  explicit HeldCopies(const cache::Catalog& catalog);

  // Counts a copy from now on, until it is dropped. False: it is too large, or there is no room and no larger copy that
  // could make way. The copies may exceed the limit until next_to_drop() has named what goes. O(log n).
  [[nodiscard]] bool add(cache::SampleIndex sample, std::uint64_t limit_bytes);
  // The same for a sample that lost its pages and is not on its way: next_to_fetch() will name it.
  void add_lost(cache::SampleIndex sample, std::uint64_t limit_bytes);
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_fetch();
  [[nodiscard]] bool must_fetch() const { return !to_fetch_.empty(); }
  // The largest copy, while all together exceed the limit; already counted as gone.
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_drop(std::uint64_t limit_bytes);
  // The copy is not there any more, or not to be counted on: its fetch failed, or the file changed.
  void drop(cache::SampleIndex sample);

  [[nodiscard]] bool contains(cache::SampleIndex sample) const {
    return !by_size_.empty() && by_size_.contains(key_of(sample));
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t samples() const { return by_size_.size(); }
  // What copies of all samples take. UINT64_MAX: a good part of them is too large to be copied.
  [[nodiscard]] std::uint64_t bytes_of_all() const { return bytes_of_all_; }

 private:
  using Key = std::pair<std::uint64_t, cache::SampleIndex>;  // by what a copy takes
  [[nodiscard]] Key key_of(cache::SampleIndex sample) const;
  [[nodiscard]] std::uint64_t count_bytes_of_all() const;

  const cache::Catalog& catalog_;
  const std::uint64_t bytes_of_all_;
  std::set<Key> by_size_;  // 48 bytes each
  std::uint64_t bytes_ = 0;
  std::deque<cache::SampleIndex> to_fetch_;  // counted, not fetched yet; may name samples that were dropped since
};

}  // namespace headrace::fuse
