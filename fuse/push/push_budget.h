// SPDX-License-Identifier: Apache-2.0
// How the budget of a mount is divided: between the page cache and the copies in the store's memory and, of the page
// cache, between pinned samples, what the plan along the order may want, and its window.
// Pure: no I/O, no threads, no clock.
//
//   PushBudget budget(pages, {.bytes = 8ULL << 30, .bytes_of_all_copies = copies.bytes_of_all()});
//   pages.set_budget(budget.page_cache_bytes());
//   if (budget.divide_for_losses()) ...;   // the kernel drops pages: another division
//
// While the kernel drops nothing, all of it is the page cache's. Some kernels drop pushed pages although nobody is
// short of memory: proactive reclaim takes what lay idle for a minute.
// - A sample that lost pages is copied as far as the budget goes beyond all samples. The store answers the next READ
//   for it. If the budget holds all samples twice, what is pushed from then on is copied, too. Under memory pressure
//   nothing is copied for this reason.
// - If the budget does not hold all samples twice, and losses are frequent, it is split: most of it goes to the copies.
//   What is fetched is copied as long as there is room, and pushed shortly before each use.
//
// Thread-safety: none; one owner. Ownership: the account of the page cache outlives it.
#pragma once

#include <cstdint>

#include "headrace/fuse/push/page_cache_account.h"

namespace headrace::fuse {

class PushBudget {
 public:
  struct Options {
    std::uint64_t bytes = 0;
    bool can_copy = true;                   // false: the daemon has no memory of its own for samples
    std::uint64_t bytes_of_all_copies = 0;  // HeldCopies::bytes_of_all()
  };
  PushBudget(const PageCacheAccount& pages, const Options& options);

  void set(std::uint64_t bytes);
  // What memory pressure leaves of it, until there is none: all of it then.
  void limit(std::uint64_t bytes);
  // The kernel has dropped some pages of what was pushed.
  void note_loss() { drops_pages_ = true; }
  // It drops many: pages are to lie idle for a shorter time. False: it is as short as it gets, or the budget holds all
  // samples twice.
  bool divide_for_losses();
  // What the window ahead of a reader is to hold at least, of records; 0: as ReadAhead sees fit.
  void set_window_samples(std::uint64_t samples) { window_samples_ = samples; }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool can_copy() const { return can_copy_; }
  [[nodiscard]] bool is_split() const { return page_cache_share_ > 1; }
  [[nodiscard]] std::uint64_t page_cache_bytes() const;
  [[nodiscard]] std::uint64_t pinnable_bytes() const;
  // For the plan along the order, and its window; 0: as ReadAhead sees fit.
  [[nodiscard]] std::uint64_t planned_bytes_max() const;
  [[nodiscard]] std::uint64_t window_bytes() const;
  // What all copies together may take now: with what the page cache holds, the budget at most.
  [[nodiscard]] std::uint64_t copies_bytes_max() const;
  // What is meant for copies: less of it may be free now.
  [[nodiscard]] std::uint64_t copies_bytes() const;
  // What is pushed from now on is copied as well.
  [[nodiscard]] bool copies_all() const { return is_split() || (keeps_copies() && holds_all_twice()); }

 private:
  [[nodiscard]] bool holds_all_twice() const;
  [[nodiscard]] bool keeps_copies() const;

  const PageCacheAccount& pages_;
  const std::uint64_t bytes_of_all_copies_;
  const bool can_copy_;
  std::uint64_t window_samples_ = 0;
  std::uint64_t full_bytes_;
  std::uint64_t bytes_;                 // less under memory pressure
  std::uint64_t page_cache_share_ = 1;  // one part in so many is the page cache's
  bool drops_pages_ = false;            // the kernel has dropped some
};

}  // namespace headrace::fuse
