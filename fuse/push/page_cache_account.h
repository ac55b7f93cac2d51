// SPDX-License-Identifier: Apache-2.0
// The account of the page cache: which samples lie there, how they came, and which of them goes next.
// Pure: no I/O, no threads, no clock.
//
//   PageCacheAccount pages(catalog, takeover.pages);
//   pages.set_budget(8ULL << 30);
//   while (auto victim = pages.next_victim(pages.bytes_of(sample))) ...;   // have the kernel forget it
//   if (pages.place(sample)) ...;                                          // push it
//   pages.release(sample);                                                 // the plan no longer wants it
//   pages.pin(sample);                                                     // it stays, whatever the plan wants
//
// A sample is held from place() on. What is released stays held until its room is needed, because a file is released
// when it is opened, which is before it is read. The one that was released first is evicted first.
//
// Pages that come with a READ count as well, and are evicted before anything else: small files whole, large ones by
// what was read of them (read_in_ranges.h). The last 32 of these files, and of these slots, stay, on top of the budget:
// their readers may be at it still.
//
// Thread-safety: none; one owner. Ownership: the catalog and the memory of `pages` outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "headrace/cache/catalog.h"
#include "headrace/cache/sample_sizes.h"
#include "headrace/fuse/push/read_in_ranges.h"
#include "headrace/fuse/survive/takeover.h"

namespace headrace::fuse {

class PageCacheAccount {
 public:
  // Goes on with what `pages` says: all that an earlier process left counts as held and not released. Budget: 0.
  PageCacheAccount(const cache::Catalog& catalog, std::span<SamplePages> pages);
  // Of records, which have these sizes, lie in one file, and come and go whole. Nothing of them is held yet.
  PageCacheAccount(cache::SampleSizes sizes, std::span<SamplePages> pages);

  [[nodiscard]] std::uint64_t bytes_of(cache::SampleIndex sample) const { return sizes_[sample]; }  // in whole pages
  [[nodiscard]] const cache::SampleSizes& sizes() const { return sizes_; }  // the same, of all samples
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }
  // False for symlinks out of the source, whose target is not the mount's.
  [[nodiscard]] bool can_be_pushed(cache::SampleIndex sample) const;
  [[nodiscard]] std::uint64_t pushable_count() const { return pushable_count_; }

  // What may be held. What no longer fits is named by next_victim().
  void set_budget(std::uint64_t bytes) { budget_bytes_ = bytes; }
  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_bytes_; }
  // What may be wanted at one time: the budget without the room for samples that are open but not read yet.
  [[nodiscard]] std::uint64_t wanted_bytes_max() const;

  // Counts a sample as held from now on. False: it does not fit, and is not to be pushed.
  [[nodiscard]] bool place(cache::SampleIndex sample);
  // True once for a sample whose attributes went with an eviction: the kernel has to look at the file again first.
  [[nodiscard]] bool take_stale(cache::SampleIndex sample);
  // The push failed: it is not held any more.
  void fail(cache::SampleIndex sample);
  // Whoever changed the file has the kernel drop what it holds of it: nothing of it counts any more.
  void drop(cache::SampleIndex sample);
  // The plan wants it: it is not evicted. It may be named before it is placed.
  void want(cache::SampleIndex sample);
  // The plan does not want it any more: it is evicted when its room is needed.
  void release(cache::SampleIndex sample);
  void release_all();
  // A pinned sample is not released, for as long as the pins are kept.
  void pin(cache::SampleIndex sample);
  void unpin(cache::SampleIndex sample);
  // False: there is no room for them now. They go like others, and are pinned again with the next true.
  void keep_pins(bool keep);
  [[nodiscard]] bool keeps_pins() const { return keeps_pins_; }
  [[nodiscard]] bool is_pinned(cache::SampleIndex sample) const { return pages_[sample].pinned; }
  [[nodiscard]] bool keeps(cache::SampleIndex sample) const { return keeps_pins_ && pages_[sample].pinned; }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return pinned_bytes_; }
  [[nodiscard]] std::uint64_t pinned_samples() const { return pinned_samples_; }
  [[nodiscard]] std::uint64_t pinned_held_samples() const { return pinned_held_samples_; }
  // A READ brought in pages of a sample that is not held. All of a small file is read then.
  void on_read_in(cache::SampleIndex sample, const PageRange& range);

  // To be evicted before `bytes` more are pushed; already counted as gone. nullopt: there is room, or no more to gain.
  [[nodiscard]] std::optional<cache::SampleIndex> next_victim(std::uint64_t bytes);
  // The same for a part of a large file that came with READs; these go first.
  [[nodiscard]] std::optional<ReadInRanges::Slot> next_range_victim(std::uint64_t bytes);
  // More is held than the budget allows, and some of it may go.
  [[nodiscard]] bool must_evict() const {
    return must_evict_ranges(0) || must_evict_read_in(0) || (is_over(0) && !released_.empty());
  }

  [[nodiscard]] bool is_held(cache::SampleIndex sample) const { return pages_[sample].held; }
  [[nodiscard]] bool is_read_in(cache::SampleIndex sample) const { return pages_[sample].read_in; }
  // Nothing of it is missing: of large files only what was read lies there.
  [[nodiscard]] bool is_read_in_whole(cache::SampleIndex sample) const {
    return is_read_in(sample) && !is_read_in_parts(sample);
  }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] std::uint64_t held_samples() const { return held_samples_; }
  [[nodiscard]] std::uint64_t wanted_bytes() const { return held_bytes_ - released_bytes_; }  // held and not released
  [[nodiscard]] std::uint64_t read_in_bytes() const { return read_in_bytes_ + ranges_.bytes(); }
  [[nodiscard]] std::uint64_t evicted_samples() const { return evicted_samples_; }

 private:
  void hold(cache::SampleIndex sample);
  void forget(cache::SampleIndex sample);
  void queue_for_eviction(cache::SampleIndex sample);
  void forget_read_in(cache::SampleIndex sample);
  void hold_read_in(cache::SampleIndex sample);
  [[nodiscard]] bool is_over(std::uint64_t bytes) const { return held_bytes_ + bytes > budget_bytes_; }
  [[nodiscard]] bool must_evict_read_in(std::uint64_t bytes) const {
    return read_in_.size() > kReadInLeast && is_over(read_in_bytes() + bytes);
  }
  [[nodiscard]] bool must_evict_ranges(std::uint64_t bytes) const {
    return ranges_.slot_count() > kReadInLeast && is_over(read_in_bytes() + bytes);
  }
  [[nodiscard]] std::optional<cache::SampleIndex> next_read_in_victim(std::uint64_t bytes);
  cache::SampleIndex evict(cache::SampleIndex sample);

  // A reader whose file's pages go while it copies them has to ask for them again. 32: twice the readers that a
  // machine's loaders are expected to have in the middle of a file at one time.
  static constexpr std::size_t kReadInLeast = 32;

  [[nodiscard]] bool is_read_in_parts(cache::SampleIndex sample) const;

  const cache::Catalog* catalog_;  // null: records
  const std::span<SamplePages> pages_;
  const cache::SampleSizes sizes_;
  const std::uint64_t total_bytes_;
  const std::uint64_t pushable_count_;
  std::uint64_t budget_bytes_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t held_samples_ = 0;
  std::uint64_t released_bytes_ = 0;  // held, and to go when room is needed
  std::uint64_t read_in_bytes_ = 0;   // of whole files
  ReadInRanges ranges_;               // of large ones
  std::uint64_t evicted_samples_ = 0;
  std::uint64_t pinned_bytes_ = 0;
  std::uint64_t pinned_samples_ = 0;
  std::uint64_t pinned_held_samples_ = 0;
  bool keeps_pins_ = true;
  std::deque<cache::SampleIndex> released_;  // oldest first; may name samples that are gone or wanted again
  std::deque<cache::SampleIndex> read_in_;   // oldest first; may name samples that are gone or pushed since
};

}  // namespace headrace::fuse
