// SPDX-License-Identifier: Apache-2.0
// Reads ahead of ranges, or of several chunks. While they wait for memory no chunk stands for them, by which whoever
// needs one of them at once would find it.
//
//   ReadsAhead::Read read(reads, entry, wanted);      // for as long as it is under way
//   if (reads.want(entry)) memory.hurry();            // `wanted` is true from now on
//
// Thread-safety: every function from any thread. Ownership: the reads are their owners', which the list outlives.
#pragma once

#include <atomic>
#include <unordered_map>

#include "headrace/cache/catalog.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class ReadsAhead {
 public:
  class Read {
   public:
    Read(ReadsAhead& reads, EntryId entry, std::atomic<bool>& wanted) : reads_(reads), entry_(entry), wanted_(wanted) {
      reads_.add(*this);
    }
    ~Read() { reads_.remove(*this); }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

   private:
    friend class ReadsAhead;
    ReadsAhead& reads_;
    const EntryId entry_;
    std::atomic<bool>& wanted_;
  };

  // Somebody waits for what is read of the entry. False: nothing is.
  [[nodiscard]] bool want(EntryId entry) {
    io::MutexLock lock(mutex_);
    const auto [first, end] = reads_.equal_range(entry);
    for (auto each = first; each != end; ++each) each->second->wanted_.store(true);
    return first != end;
  }

 private:
  void add(Read& read) {
    io::MutexLock lock(mutex_);
    reads_.emplace(read.entry_, &read);
  }
  void remove(const Read& read) {
    io::MutexLock lock(mutex_);
    auto each = reads_.find(read.entry_);
    while (each->second != &read) ++each;
    reads_.erase(each);
  }

  io::Mutex mutex_;
  std::unordered_multimap<EntryId, Read*> reads_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
