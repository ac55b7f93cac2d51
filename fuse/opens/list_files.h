// SPDX-License-Identifier: Apache-2.0
// Files beside the samples that look like lists (csv, txt, ...): what programs read of these, they shuffle.
//
//   auto lists = std::make_shared<ListFiles>(store, [&](auto within) { orders.on_list(std::move(within)); });
//   lists->on_read(entry);   // every READ of a file that is no sample
//   lists->stop();           // `offer` is not called any more
//
// A version of a file is read once, whole, by the store, if it has 8 MiB at most; 32 MiB are read in a mount. Where
// many such files lie side by side, as a label for each image, none of them is taken for a list.
//
// Thread-safety: every function from any thread; `offer` runs on an I/O thread of the store. Ownership: shared with the
// reads under way; the store outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "headrace/cache/order_learner.h"
#include "headrace/cache/store.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class ListFiles : public std::enable_shared_from_this<ListFiles> {
 public:
  using Offer = std::function<void(cache::OrderLearner::SamplesWithin)>;
  ListFiles(cache::Store& store, Offer offer) : store_(store), offer_(std::move(offer)) {}

  void on_read(cache::EntryId entry);
  void on_changed(std::span<const cache::EntryId> entries);
  void stop();

 private:
  [[nodiscard]] bool is_among_few(cache::EntryId entry) HEADRACE_REQUIRES(mutex_);
  void on_content(cache::EntryId entry, const cache::View& view);
  void on_failed(cache::EntryId entry, std::uint64_t bytes);

  cache::Store& store_;
  io::Mutex mutex_;
  Offer offer_ HEADRACE_GUARDED_BY(mutex_);  // empty: stopped
  std::unordered_set<cache::EntryId> taken_ HEADRACE_GUARDED_BY(mutex_);
  std::uint64_t bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;                           // read in all, of every version
  std::unordered_map<cache::EntryId, bool> has_few_ HEADRACE_GUARDED_BY(mutex_);  // by folder
};

}  // namespace headrace::fuse
