// SPDX-License-Identifier: Apache-2.0
// What programs read of large files when they open them is recorded, kept beside the catalog, and fetched ahead of
// them in the next mount (cache/opening_profile.h, ranges_ahead.h).
//
//   Openings openings(store, {.file = "train.catalog.opening", .memory_bytes = 16 << 20});
//   openings.on_read(entry, range);                                       // every READ of a large file
//   if (!openings.answer_read(entry, known, range, answer)) read_in_store();
//   openings.on_changed(entries);                                         // before anybody gets new bytes
//
// The first opening of a file in a mount is recorded: later ones find their pages in the kernel. A profile of which
// less than half was read the next time is of a file that is opened in another way each time, which is noted and not
// recorded again. hr-opening saves what a reader has read once it has been quiet for ten seconds, and gives back what
// waited for it.
//
// Thread-safety: every function from any thread; answers are called without a lock. Ownership: the store outlives it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "headrace/cache/opening_profile.h"
#include "headrace/cache/store.h"
#include "headrace/fuse/opens/opening_recorder.h"
#include "headrace/fuse/opens/ranges_ahead.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

struct OpeningsOptions {
  std::filesystem::path file;      // where the profile is kept
  std::uint64_t memory_bytes = 0;  // of the store's, for what is fetched ahead; 0: nothing is
};

class Openings {
 public:
  // A file that cannot be used is as good as none; the log says so.
  Openings(cache::Store& store, const OpeningsOptions& options);
  // Saves what was recorded.
  ~Openings();
  Openings(const Openings&) = delete;
  Openings& operator=(const Openings&) = delete;

  // What it may take of the store's memory at any time.
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }

  void on_read(cache::EntryId entry, const PageRange& range);
  // After on_read() of it. `known`: the version of the file that the reader is shown.
  [[nodiscard]] bool answer_read(cache::EntryId entry, const cache::Identity& known, const PageRange& range,
                                 const Requests::Answer& answer);
  void on_changed(std::span<const cache::EntryId> entries);
  // Nothing is recorded or answered any more.
  void stop();

  // READs answered with what was fetched ahead for them.
  [[nodiscard]] std::uint64_t answered() const { return answered_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct OpenedFile {
    cache::Identity identity;
    std::optional<OpeningRecorder> recorder;            // nullopt: the opening is over, or not recorded
    std::shared_ptr<const RangesAhead::Ranges> ranges;  // of the opening before; null: not known, or used
    std::shared_ptr<RangesAhead> ahead;                 // null: none is under way
    Clock::time_point last_used = {};                   // `ahead`
    std::uint64_t bytes = 0;                            // that it may take
  };

  void load();
  void look_up(cache::EntryId entry, OpenedFile& file, Clock::time_point now) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::shared_ptr<RangesAhead> ahead_for(cache::EntryId entry, const cache::Identity& known,
                                                       const PageRange& range) HEADRACE_REQUIRES(mutex_);
  void keep(cache::EntryId entry, const OpenedFile& file) HEADRACE_REQUIRES(mutex_);
  void end_ahead(cache::EntryId entry) HEADRACE_REQUIRES(mutex_);
  void forget_ahead(cache::EntryId entry, OpenedFile& file) HEADRACE_REQUIRES(mutex_);
  void end_aheads(Clock::time_point since) HEADRACE_REQUIRES(mutex_);
  void end_what_is_over(Clock::time_point now) HEADRACE_REQUIRES(mutex_);
  void end_recording(cache::EntryId entry, OpenedFile& file) HEADRACE_REQUIRES(mutex_);
  void drop_recorder(OpenedFile& file) HEADRACE_REQUIRES(mutex_);
  void run();
  void save() HEADRACE_EXCLUDES(mutex_);

  cache::Store& store_;
  const std::filesystem::path file_;
  std::uint64_t memory_bytes_ = 0;  // set by the constructor
  std::atomic<std::uint64_t> answered_ = 0;
  io::Mutex mutex_;
  io::CondVar wake_;
  cache::OpeningProfile profile_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_map<cache::EntryId, OpenedFile> files_ HEADRACE_GUARDED_BY(mutex_);
  std::uint64_t taken_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;  // by these, of memory_bytes_
  std::size_t recording_ HEADRACE_GUARDED_BY(mutex_) = 0;      // files
  std::size_t recorded_ HEADRACE_GUARDED_BY(mutex_) = 0;       // ranges, by all recorders: no more than a profile has
  std::vector<cache::EntryId> under_way_ HEADRACE_GUARDED_BY(mutex_);  // those with RangesAhead, the oldest first
  bool is_dirty_ HEADRACE_GUARDED_BY(mutex_) = false;                  // something is to be saved
  bool is_unsaved_ HEADRACE_GUARDED_BY(mutex_) = false;                // it could not be; the end tries once more
  bool is_stopped_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace headrace::fuse
