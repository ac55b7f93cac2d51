// SPDX-License-Identifier: Apache-2.0
// Fetches ranges of one file side by side, ahead of a reader that reads them in their sequence, and answers its READs
// from them. What is fetched stays in the store's memory until its READ comes, and nothing is pushed: the pages are
// those that READs bring in anyway, and are accounted as these are.
//
//   auto ahead = std::make_shared<RangesAhead>(store, entry, ranges, RangesAhead::Limits{});
//   if (!ahead->answer_read({offset, length}, answer)) read_in_store();
//
// The reader may leave ranges out, and read others in between. One that has left altogether is given up (is_over()).
//
// Thread-safety: every function from any thread; answers are called without a lock. Ownership: shared with the fetches
// under way; the store outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "headrace/cache/chunk.h"
#include "headrace/cache/store.h"
#include "headrace/fuse/kernel/requests.h"
#include "headrace/fuse/push/read_in_ranges.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

// All that is read lies in the range.
[[nodiscard]] bool covers(const cache::ChunkRange& range, const PageRange& read);

class RangesAhead : public std::enable_shared_from_this<RangesAhead> {
 public:
  using Answer = Requests::Answer;
  using Ranges = std::vector<cache::ChunkRange>;
  struct Limits {
    std::size_t ranges = 128;          // on their way or waiting for their READ; a source of 5 ms gives 25 000 a second
    std::uint64_t bytes = 1ULL << 20;  // that these take of the store's memory
  };
  // `ranges`: in the sequence in which they are read.
  RangesAhead(cache::Store& store, cache::EntryId entry, std::shared_ptr<const Ranges> ranges, const Limits& limits)
      : store_(store), entry_(entry), ranges_(std::move(ranges)), limits_(limits) {}

  // Answers a READ of one of the ranges that are there, and begins to fetch the next ones. False: it is none of them,
  // and `answer` is not called; the ranges after it are fetched all the same. What is on its way is not waited for: it
  // may wait for memory behind every read that is for now.
  [[nodiscard]] bool answer_read(const PageRange& range, const Answer& answer);
  // Fetches no more.
  void give_up();
  // Nothing that was fetched until now is shown any more: the file is another one, or the mount ends.
  void stop();

  // The reader is through, or reads something else.
  [[nodiscard]] bool is_over() const;
  struct Counts {
    std::uint64_t fetched = 0;  // ranges
    std::uint64_t used = 0;     // of these, for which a READ came
  };
  [[nodiscard]] Counts counts() const;

 private:
  struct Part {
    cache::ChunkRange range;
    bool has_ended = false;
    bool is_used = false;
    bool is_read = false;  // to its end
    bool is_dropped = false;
    std::shared_ptr<const cache::View> view = nullptr;  // null: not there yet, or not to be had
  };
  using Parts = std::vector<std::shared_ptr<Part>>;

  [[nodiscard]] std::shared_ptr<Part> find(const PageRange& range) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool skip_to(const PageRange& range) HEADRACE_REQUIRES(mutex_);
  void note_use(Part& part, const PageRange& read) HEADRACE_REQUIRES(mutex_);
  void drop_first() HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool has_room(const cache::ChunkRange& range) const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool make_room(const cache::ChunkRange& range) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] Parts begin_next() HEADRACE_REQUIRES(mutex_);
  void give_back(const Part& part) HEADRACE_REQUIRES(mutex_);
  void fetch(const std::shared_ptr<Part>& part);
  void on_fetched(Part& part, io::Result<cache::View> view);

  cache::Store& store_;
  const cache::EntryId entry_;
  const std::shared_ptr<const Ranges> ranges_;
  const Limits limits_;
  mutable io::Mutex mutex_;
  std::deque<std::shared_ptr<Part>> parts_ HEADRACE_GUARDED_BY(mutex_);  // the ranges before next_
  std::size_t next_ HEADRACE_GUARDED_BY(mutex_) = 0;                     // the first that was not begun
  std::size_t held_ HEADRACE_GUARDED_BY(mutex_) = 0;                     // parts that count against the limits
  std::uint64_t held_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  unsigned misses_ HEADRACE_GUARDED_BY(mutex_) = 0;  // READs in a row
  bool is_over_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool is_stopped_ HEADRACE_GUARDED_BY(mutex_) = false;
  Counts counts_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse
