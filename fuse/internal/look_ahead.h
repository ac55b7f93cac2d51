// SPDX-License-Identifier: Apache-2.0
// Whether a name that is looked up is about to be read, so that its bytes can be on their way before the READ comes.
//
//   if (look_ahead.on_lookup(entry)) fetch(entry);           // then: look_ahead.keep(entry, std::move(view));
//   const cache::View fetched = look_ahead.on_read(entry);   // keeps the bytes findable while the store is asked
//
// Learned from what followed the last lookups: a loader opens and reads, `stat` and `find` do not read.
//
// Thread-safety: every function from any thread.
#pragma once

#include <array>
#include <cstddef>

#include "headrace/cache/catalog.h"
#include "headrace/cache/view.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class LookAhead {
 public:
  // True: fetch it.
  [[nodiscard]] bool on_lookup(cache::EntryId entry);
  // What was fetched stays until it is read or 8 later names were looked up.
  void keep(cache::EntryId entry, cache::View view);
  // A READ came. Returns what was kept; empty when there is nothing.
  [[nodiscard]] cache::View on_read(cache::EntryId entry);

 private:
  // As many as a node's loaders have between lookup and READ; what is fetched for them is 8 MiB at most.
  static constexpr std::size_t kSlotCount = 8;
  struct Slot {
    bool waits = false;  // for its READ
    cache::EntryId entry = 0;
    cache::View view;
  };

  io::Mutex mutex_;
  std::array<Slot, kSlotCount> slots_ HEADRACE_GUARDED_BY(mutex_);
  std::size_t next_slot_ HEADRACE_GUARDED_BY(mutex_) = 0;
  int trust_ HEADRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace headrace::fuse
