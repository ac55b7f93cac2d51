// SPDX-License-Identifier: Apache-2.0
// Reads ahead of a hard disk in the order in which the files lie on it, so that its head sweeps instead of jumping.
//
//   Sweep sweep({.disk_offset_of = [](const SourceRead& read) { ... }, .issue = [](SourceRead& read) { ... }});
//   sweep.add(read);    // issued now or later
//   sweep.on_done();    // a read that was issued has ended
//
// While kSweepInFlight reads are under way, others wait. Then the oldest of them, at most kSweepBatch, are issued by
// rising offset on the disk. A batch is closed: what comes later, and is needed later, cannot push ahead of it. A read
// that somebody waits for by now is issued at once.
//
// Virtual disks often say that they rotate. A disk that answers faster than any head can move gets its reads at once,
// in the order in which they come (SeekMeter). So does a disk of which nothing is known yet, for the first reads.
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::cache {

struct SourceRead;

// What a disk can queue and sort by itself (NCQ). It also bounds how many others a read for now finds before it.
inline constexpr std::size_t kSweepInFlight = 32;
// The head moves less per read where a batch is larger, and most of that is gained before 64. In a larger batch a read
// would wait longer for others that are needed after it.
inline constexpr std::size_t kSweepBatch = 64;

// Whether a device behaves as if it had to seek. How fast reads end tells so, but only while the device has several to
// do. With few to do it tells how often somebody asks: a reader whose samples are all held would look like a slow disk.
// Thread-safety: none; one owner. No clock of its own.
class SeekMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit SeekMeter(bool seeks_at_first) : seeks_(seeks_at_first) {}
  // A read ended; `left` are under way still.
  void on_read(TimePoint now, std::size_t left);
  [[nodiscard]] bool seeks() const { return seeks_; }

 private:
  bool seeks_;
  unsigned reads_ = 0;                     // that ended in busy_time_
  std::chrono::nanoseconds busy_time_{0};  // of this window
  bool busy_ = false;                      // since last_end_
  TimePoint last_end_ = {};
};

class Sweep {
 public:
  struct Options {
    // Where a read begins on the device. nullopt: not known, so that it goes before the others. May block.
    std::function<std::optional<std::uint64_t>(const SourceRead& read)> disk_offset_of;
    std::function<void(SourceRead& read)> issue;  // from any thread; on_done() may be called within
    // The device has turned out to seek, or not to. Runs on the thread of on_done(), under no lock.
    std::function<void(bool seeks)> on_verdict;
    bool seeks_at_first = false;  // true: sorts from the first read on, before a read was slow
  };

  explicit Sweep(Options options);
  ~Sweep() { close(); }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void add(SourceRead& read);
  void on_done();
  // SourceRead::wanted of some that were added has become true.
  void hurry();
  // Issues what waits and joins the thread. Nothing may be added any more. on_done() may still come.
  void close();
  // False: the device is too fast for sorting to gain anything.
  [[nodiscard]] bool sorts() const { return sorts_.load(std::memory_order_relaxed); }

 private:
  using Batch = std::vector<SourceRead*>;

  void run();
  [[nodiscard]] Batch take_oldest() HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] Batch take_wanted() HEADRACE_REQUIRES(mutex_);
  void issue_all(const Batch& batch) const;
  void sort_by_disk_offset(Batch& batch) const;

  const Options options_;
  std::atomic<bool> sorts_;

  io::Mutex mutex_;
  io::CondVar changed_;
  std::deque<SourceRead*> waiting_ HEADRACE_GUARDED_BY(mutex_);  // in order of arrival
  std::deque<SourceRead*> batch_ HEADRACE_GUARDED_BY(mutex_);    // taken from there, by offset on the disk
  std::size_t in_flight_ HEADRACE_GUARDED_BY(mutex_) = 0;
  SeekMeter meter_ HEADRACE_GUARDED_BY(mutex_);
  bool stopping_ HEADRACE_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: uses all of the above
};

}  // namespace headrace::cache
