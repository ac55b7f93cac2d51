// SPDX-License-Identifier: Apache-2.0
// The data set's own storage: the last tier, only ever read.
//
//   SourceRead read{.path = path.c_str(), .range = {0, size}, .buffer = std::move(buffer), .on_done = ...};
//   source->read(read);
//
// A read that fails for a reason that may pass (EIO, a timeout, a server that went away) is tried again. A read names
// the version of the file that it wants. The opened file is compared with it before the first byte and after the last
// one, and where it is another version the read ends with kStale. Both are logged once, not once per read.
//
// A file that changed just now is read a moment later (source/young_file.h): until then another change may leave no
// trace.
//
// A source that was unmounted and mounted anew is another directory at the same path, while every read of ours fails.
// So the path is looked at before a read is tried again, at most once a second. Another directory there is used from
// then on if it has the very file that is being read, as it was catalogued.
//
// Reads ahead of a hard disk are sorted by where the files lie (source/sweep.h).
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "headrace/cache/chunk.h"
#include "headrace/cache/source/kept_files.h"
#include "headrace/cache/source/source_root.h"
#include "headrace/cache/source/sweep.h"
#include "headrace/cache/tier.h"
#include "headrace/io/io_thread.h"
#include "headrace/io/mutex.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

class FolderSource;

// Ownership: the caller's; must neither move nor die until on_done has run (exactly once, also at shutdown).
struct SourceRead {
  const char* path = nullptr;  // relative to the source; lasts until on_done
  ChunkRange range;            // all of it lies within the catalogued size; empty: the file is compared, not read
  Identity identity;           // the version of the file that is wanted; no other version's bytes are delivered
  io::Buffer buffer;           // capacity: the range in whole pages; given back, filled, on success
  bool ahead = false;          // nobody waits for it yet
  bool here = false;           // the calling thread may wait for it
  EntryId keep = kNoEntry;     // the file, which stays open for the next read of it; kNoEntry: it is closed
  // Runs on the source's I/O thread, or on the thread that waits, and must not block. On success `data` has
  // range.length bytes.
  void (*on_done)(SourceRead& self, Status status) = nullptr;
  void* context = nullptr;
  std::byte* data = nullptr;

  // Private to FolderSource.
  FolderSource* source = nullptr;
  std::shared_ptr<SourceRoot> root = {};      // what `operation` reads below
  std::shared_ptr<const KeptFile> file = {};  // that was open already; null: `operation` opens it
  unsigned attempt = 0;
  io::Operation operation = {};
};

struct SourceOptions {
  std::string name;                    // for people
  std::filesystem::path remount_path;  // where the source is looked for when it was unmounted; empty: nowhere
  io::EngineOptions engine = {};
  std::optional<bool> rotational;                                    // as StoreOptions::source_rotational
  std::function<Result<std::unique_ptr<io::Engine>>()> make_engine;  // for tests: instead of `engine`
};

class FolderSource {
 public:
  // Errors: those of open_engine().
  [[nodiscard]] static Result<std::unique_ptr<FolderSource>> open(const SourceOptions& options,
                                                                  std::shared_ptr<SourceRoot> root,
                                                                  io::TimerThread& timers);
  FolderSource(const FolderSource&) = delete;
  FolderSource& operator=(const FolderSource&) = delete;

  void read(SourceRead& read);
  // Fills the buffer on the calling thread where the page cache has the file: that takes no longer than handing the
  // read over. True: done, on_done does not run.
  [[nodiscard]] bool read_now(SourceRead& read);
  // Whether the path leads to this version of the file, where the calling thread can tell without the I/O thread: that
  // takes no longer than handing a read over. False: no, or that a read with an empty range has to tell.
  [[nodiscard]] bool has_now(const char* path, const Identity& identity);
  // Runs a task on the I/O thread.
  void post(std::function<void()> task) { thread_->post(std::move(task)); }
  // The file is another, or gone: what is open of it is of no use any more.
  void let_go(EntryId entry) { kept_.let_go(entry); }
  // Nothing is tried again, and no file stays open, from now on. TimerThread::stop() follows, then join().
  void stop_retrying() {
    stopping_.store(true);
    kept_.close();
  }
  // Waits until the I/O thread has finished the completion that it is in.
  void settle();
  // Ends what is in flight (kCancelled) and joins the threads.
  void join();

  [[nodiscard]] std::shared_ptr<SourceRoot> root() const;
  [[nodiscard]] TierStats stats() const;
  [[nodiscard]] io::EngineInfo engine() const { return thread_->info(); }

 private:
  FolderSource(const SourceOptions& options, std::shared_ptr<SourceRoot> root, io::TimerThread& timers);

  void start_sweep(bool seeks_at_first);
  void limit_depth(bool seeks);
  [[nodiscard]] std::optional<std::uint64_t> disk_offset_of(const SourceRead& read) const;
  void begin(SourceRead& read);
  void begin_later(SourceRead& read, std::chrono::nanoseconds wait);
  void submit(SourceRead& read);
  void open_and_read(SourceRead& read);
  void issue(SourceRead& read, io::Operation operation);
  [[nodiscard]] bool open_anew(SourceRead& read, const Result<std::uint64_t>& bytes);
  void keep_open(SourceRead& read);
  [[nodiscard]] bool reads_here(const SourceRead& read) const;
  void finish(SourceRead& read, Result<std::uint64_t> bytes);
  [[nodiscard]] bool retry_later(SourceRead& read, const io::Error& error);
  [[nodiscard]] bool may_be_unmounted(const io::Error& error) const;
  void look_for_remount(const SourceRead& read);
  [[nodiscard]] bool is_look_due() const;
  void note_failure(const io::Error& error);
  void note_success();
  void count_success(std::uint64_t bytes);
  [[nodiscard]] io::Error note_stale(const SourceRead& read);

  const std::string name_;
  const std::filesystem::path remount_path_;  // empty: the path leads elsewhere
  const bool engine_only_;                    // a test watches the engine
  io::TimerThread& timers_;
  KeptFiles kept_;
  std::unique_ptr<io::IoThread> thread_;
  std::unique_ptr<Sweep> sweep_;  // where the source is a hard disk

  std::atomic<bool> stopping_ = false;
  std::atomic<unsigned> compare_pause_ = 0;  // of has_now(): calls left that compare nothing
  std::atomic<std::uint64_t> reads_ = 0;
  std::atomic<std::uint64_t> read_bytes_ = 0;
  std::atomic<std::uint64_t> errors_ = 0;
  std::atomic<std::uint64_t> failures_in_a_row_ = 0;
  mutable io::Mutex mutex_;
  std::shared_ptr<SourceRoot> root_ HEADRACE_GUARDED_BY(mutex_);
  io::TimerThread::Clock::time_point next_look_ HEADRACE_GUARDED_BY(mutex_) = {};
  std::string last_failure_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_set<std::string> stale_paths_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
