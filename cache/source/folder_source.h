// SPDX-License-Identifier: Apache-2.0
// A source that is a folder.
//
//   HEADRACE_TRY(root, open_source_root({.path = "/data"}));
//   HEADRACE_TRY(source, FolderSource::open({.name = "/data", .remount_path = "/data"}, root, timers));
//
// Tried again is what fails with EIO, with a timeout, or because a server went away. The opened file is compared with
// the version that is wanted before the first byte and after the last one. Both are logged once, not once per read.
//
// A file that changed just now is read a moment later (source/young_file.h): until then another change may leave no
// trace.
//
// A source that was unmounted and mounted anew is another directory at the same path, while every read of ours fails.
// So the path is looked at before a read is tried again, at most once a second. Another directory there is used from
// then on if it has the very file that is being read, as it was catalogued. A dead server may keep the look waiting for
// good: it is a slow call (io/slow_calls.h), and what is to be tried again meanwhile waits for it, and nothing else.
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
#include <vector>

#include "headrace/cache/source/kept_files.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/source/source_counts.h"
#include "headrace/cache/source/source_root.h"
#include "headrace/cache/source/sweep.h"
#include "headrace/cache/tier.h"
#include "headrace/io/io_thread.h"
#include "headrace/io/mutex.h"
#include "headrace/io/slow_calls.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

struct FolderSourceOptions {
  std::string name;                    // for people
  std::filesystem::path remount_path;  // where the source is looked for when it was unmounted; empty: nowhere
  io::EngineOptions engine = {};
  std::optional<bool> rotational;                                    // as StoreOptions::source_rotational
  std::function<Result<std::unique_ptr<io::Engine>>()> make_engine;  // for tests: instead of `engine`
};

class FolderSource final : public Source {
 public:
  // Errors: those of open_engine().
  [[nodiscard]] static Result<std::unique_ptr<FolderSource>> open(const FolderSourceOptions& options,
                                                                  std::shared_ptr<SourceRoot> root,
                                                                  io::TimerThread& timers);

  void read(SourceRead& read) override;
  // Where the page cache has the file.
  [[nodiscard]] bool read_now(SourceRead& read) override;
  [[nodiscard]] bool has_now(const char* path, const Identity& identity) override;
  void hurry(const SourceRead* /*read*/) override {
    if (sweep_) sweep_->hurry();
    thread_->hurry();
  }
  void let_go(EntryId entry) override { kept_.let_go(entry); }
  void post(std::function<void()> task) override { thread_->post(std::move(task)); }
  void stop_retrying() override {
    stopping_.store(true);
    kept_.close();
  }
  void settle() override;
  void join() override;
  [[nodiscard]] std::shared_ptr<SourceTree> tree() const override { return root(); }
  [[nodiscard]] TierStats stats() const override;
  [[nodiscard]] io::EngineInfo engine() const override { return thread_->info(); }

 private:
  FolderSource(const FolderSourceOptions& options, std::shared_ptr<SourceRoot> root, io::TimerThread& timers);

  [[nodiscard]] std::shared_ptr<SourceRoot> root() const;
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
  void try_again(SourceRead& read);
  void look_for_remount(const SourceRead& read);
  void end_look(const std::shared_ptr<SourceRoot>& found);
  [[nodiscard]] bool is_look_due() const;

  SourceCounts counts_;
  const std::filesystem::path remount_path_;  // empty: the path leads elsewhere
  const bool engine_only_;                    // a test watches the engine
  io::TimerThread& timers_;
  io::SlowCalls slow_{"hr-slow"};
  KeptFiles kept_;
  std::unique_ptr<io::IoThread> thread_;
  std::unique_ptr<Sweep> sweep_;  // where the source is a hard disk

  std::atomic<bool> stopping_ = false;
  std::atomic<unsigned> compare_pause_ = 0;  // of has_now(): calls left that compare nothing
  mutable io::Mutex mutex_;
  std::shared_ptr<SourceRoot> root_ HEADRACE_GUARDED_BY(mutex_);
  io::TimerThread::Clock::time_point next_look_ HEADRACE_GUARDED_BY(mutex_) = {};
  std::vector<SourceRead*> waiting_ HEADRACE_GUARDED_BY(mutex_);  // for the look that is being made
};

}  // namespace headrace::cache
