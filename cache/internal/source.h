// SPDX-License-Identifier: Apache-2.0
// The data set's own storage: the last tier, only ever read.
//
//   SourceRead read{.path = path.c_str(), .range = {0, size}, .buffer = std::move(buffer), .on_done = ...};
//   source->read(read);
//
// A read that fails for a reason that may pass (EIO, a timeout, a server that went away) is tried again; one that finds
// less than the catalog says is kStale. Both are logged once, not once per read.
//
// Of a hard disk, reads ahead are sorted by where the files lie (internal/sweep.h).
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "headrace/cache/internal/chunk.h"
#include "headrace/cache/internal/sweep.h"
#include "headrace/cache/internal/timer_thread.h"
#include "headrace/cache/store.h"
#include "headrace/io/io_thread.h"
#include "headrace/io/mutex.h"
#include "headrace/io/page_cache_reader.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

class Source;

// Ownership: the caller's; must neither move nor die until on_done has run (exactly once, also at shutdown).
struct SourceRead {
  const char* path = nullptr;  // relative to the source; lasts until on_done
  ChunkRange range;            // all of it lies within the catalogued size
  io::Buffer buffer;           // capacity: the range in whole pages; given back, filled, on success
  bool ahead = false;          // nobody waits for it yet
  // Runs on the source's I/O thread; must not block. On success data holds range.length bytes.
  void (*on_done)(SourceRead& self, Status status) = nullptr;
  void* context = nullptr;
  std::byte* data = nullptr;

  // Private to Source.
  Source* source = nullptr;
  unsigned attempt = 0;
  io::Operation operation = {};
};

class Source {
 public:
  // Errors: as opening a directory; those of open_engine().
  [[nodiscard]] static Result<std::unique_ptr<Source>> open(const StoreOptions& options, TimerThread& timers);
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void read(SourceRead& read);
  // Fills the buffer on the calling thread where that takes no longer than handing the read over: the page cache has
  // the file. True: done, on_done does not run.
  [[nodiscard]] bool read_now(SourceRead& read);
  // Runs a task on the I/O thread.
  void post(std::function<void()> task) { thread_->post(std::move(task)); }
  // Nothing is tried again from now on. To be followed by TimerThread::stop(), then join().
  void stop_retrying() { stopping_.store(true); }
  // Waits until the I/O thread has finished the completion that it is in.
  void settle();
  // Ends what is in flight (kCancelled) and joins the threads.
  void join();

  [[nodiscard]] int directory_fd() const { return fd_; }
  [[nodiscard]] TierStats stats() const;
  [[nodiscard]] io::EngineInfo engine() const { return thread_->info(); }

 private:
  Source(int fd, io::UniqueFd owned_fd, std::string name, bool in_memory, TimerThread& timers);

  void start_sweep();
  [[nodiscard]] std::optional<std::uint64_t> place_of(const SourceRead& read) const;
  void submit(SourceRead& read);
  void finish(SourceRead& read, Result<std::uint64_t> bytes);
  [[nodiscard]] bool retry_later(SourceRead& read, const io::Error& error);
  void note_failure(const io::Error& error);
  void note_success();
  void count_success(std::uint64_t bytes);
  [[nodiscard]] io::Error note_stale(const SourceRead& read, std::uint64_t bytes);

  const int fd_;
  const io::UniqueFd owned_fd_;  // empty when the caller's descriptor is used
  const std::string name_;
  TimerThread& timers_;
  io::PageCacheReader page_cache_;
  bool opens_wait_ = false;
  bool page_cache_enabled_ = true;  // not where opening would block the caller, or a test watches the engine
  io::CacheMode cache_mode_ = io::CacheMode::kBuffered;
  std::unique_ptr<io::IoThread> thread_;
  std::unique_ptr<Sweep> sweep_;  // where the source is a hard disk

  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> reads_ = 0;
  std::atomic<std::uint64_t> read_bytes_ = 0;
  std::atomic<std::uint64_t> errors_ = 0;
  std::atomic<std::uint64_t> failures_in_a_row_ = 0;
  mutable io::Mutex mutex_;
  std::string last_failure_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_set<std::string> stale_paths_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
