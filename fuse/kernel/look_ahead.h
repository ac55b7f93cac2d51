// SPDX-License-Identifier: Apache-2.0
// Whether a name that is looked up is about to be read, so that its bytes can be on their way before the READ comes.
//
//   const bool fetch = look_ahead.on_lookup(entry);          // before the reader has its answer and can ask for more
//   if (fetch && look_ahead.waits(entry)) ...                // then: look_ahead.keep(entry, std::move(view));
//   look_ahead.on_read(entry);                               // before the store is asked
//   static_cast<void>(look_ahead.end_read(entry));           // and after: until then what was fetched is found there
//
// Learned from what followed the last lookups: a loader opens and reads, `stat` and `find` do not read.
//
// Thread-safety: every function from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "headrace/cache/catalog.h"
#include "headrace/cache/view.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class LookAhead {
 public:
  // True: fetch it.
  [[nodiscard]] bool on_lookup(cache::EntryId entry);
  // Whether the READ of what was looked up has not come yet.
  [[nodiscard]] bool waits(cache::EntryId entry);
  // What was fetched stays until its READ ends or 8 later names were looked up.
  void keep(cache::EntryId entry, cache::View view);
  void on_read(cache::EntryId entry);
  // Returns what was kept; empty when there is nothing.
  [[nodiscard]] cache::View end_read(cache::EntryId entry);

 private:
  // As many as a node's loaders have between lookup and READ; what is fetched for them is 8 MiB at most.
  static constexpr std::size_t kSlotCount = 8;
  struct Slot {
    enum class State : std::uint8_t { kFree, kLookedUp, kRead };
    State state = State::kFree;
    cache::EntryId entry = 0;
    cache::View view;
  };

  [[nodiscard]] Slot* find(cache::EntryId entry, Slot::State state) HEADRACE_REQUIRES(mutex_);

  io::Mutex mutex_;
  std::array<Slot, kSlotCount> slots_ HEADRACE_GUARDED_BY(mutex_);
  std::size_t next_slot_ HEADRACE_GUARDED_BY(mutex_) = 0;
  int trust_ HEADRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace headrace::fuse
