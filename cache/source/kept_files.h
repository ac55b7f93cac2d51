// SPDX-License-Identifier: Apache-2.0
// Files of the source that stay open from one small read to the next: a record of a pack then costs one read, as it
// costs a program that has the pack open, and not an open and a close as well.
//
//   if (auto file = kept.find(entry, identity, root)) read_from(file->fd);   // else open it, and then
//   kept.keep(entry, {std::move(fd), mode, identity, root});
//
// A file is let go of when another version of it is asked for, when nobody has read it for kKeptIdle to twice that, and
// when more files are read than may stay open. The version is compared with each read all the same
// (io::Operation::expected).
//
// Whoever is the last to have a file has it closed by `slow`: a server may take its time, and who reads has others to
// answer.
//
// Thread-safety: every function from any thread. Ownership: a file lasts as long as a read has it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "headrace/cache/source/source_root.h"
#include "headrace/io/engine.h"
#include "headrace/io/mutex.h"
#include "headrace/io/slow_calls.h"
#include "headrace/io/timer_thread.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

// A quarter of the 1024 descriptors that a process may have by default.
inline constexpr std::size_t kKeptFilesMax = 256;
// Between two looks for files that nobody reads: longer than a loader pauses between batches, and short for whoever
// waits until the source can be unmounted.
inline constexpr std::chrono::seconds kKeptIdle{10};

struct KeptFile {
  io::UniqueFd fd;
  io::CacheMode cache_mode = io::CacheMode::kBuffered;  // that it was opened for
  Identity identity;
  std::shared_ptr<SourceRoot> root;  // that it was found below
};

class KeptFiles {
 public:
  // `slow` outlives every read that has a file.
  KeptFiles(io::TimerThread& timers, io::SlowCalls& slow, io::TimerThread::Clock::duration idle = kKeptIdle)
      : timers_(timers), slow_(slow), idle_(idle) {}

  // nullptr: not kept, or another version or root of it was, which is let go of.
  [[nodiscard]] std::shared_ptr<const KeptFile> find(EntryId entry, const Identity& identity, const SourceRoot* root);
  void keep(EntryId entry, KeptFile file);
  void let_go(EntryId entry);
  // Lets go of all, and keeps nothing from now on.
  void close();
  [[nodiscard]] std::size_t count() const;

 private:
  struct Kept {
    std::shared_ptr<const KeptFile> file;
    std::uint64_t used = 0;  // the clock then
  };
  using Files = std::unordered_map<EntryId, Kept>;

  void look_later();
  void look();
  [[nodiscard]] Files::iterator oldest() HEADRACE_REQUIRES(mutex_);

  io::TimerThread& timers_;
  io::SlowCalls& slow_;
  const io::TimerThread::Clock::duration idle_;
  mutable io::Mutex mutex_;  // no file is given up under it: that takes another lock
  Files files_ HEADRACE_GUARDED_BY(mutex_);
  std::uint64_t clock_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t looked_ HEADRACE_GUARDED_BY(mutex_) = 0;  // the clock at the last look
  bool looks_ HEADRACE_GUARDED_BY(mutex_) = false;        // a look is to come
  bool closed_ HEADRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace headrace::cache
