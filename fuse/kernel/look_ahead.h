// SPDX-License-Identifier: Apache-2.0
// Whether a name that is looked up is about to be read, so that its bytes can be on their way before the READ comes.
//
//   if (look_ahead.on_lookup(entry)) store.read_async(entry, ...);
//   look_ahead.on_read(entry);
//
// Learned from what followed the last look-ups: a loader opens and reads, `stat` and `find` do not read.
//
// Thread-safety: every function from any thread.
#pragma once

#include <array>
#include <cstddef>

#include "headrace/cache/catalog.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class LookAhead {
 public:
  LookAhead() { unread_.fill(cache::kNoEntry); }

  // True: fetch it.
  [[nodiscard]] bool on_lookup(cache::EntryId entry);
  void on_read(cache::EntryId entry);

 private:
  // As many as a node's loaders have between look-up and READ.
  static constexpr std::size_t kUnreadMax = 8;

  io::Mutex mutex_;
  std::array<cache::EntryId, kUnreadMax> unread_
      HEADRACE_GUARDED_BY(mutex_);  // looked up last; kNoEntry: none, or read
  std::size_t next_ HEADRACE_GUARDED_BY(mutex_) = 0;
  int trust_ HEADRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace headrace::fuse
