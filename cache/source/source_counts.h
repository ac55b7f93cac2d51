// SPDX-License-Identifier: Apache-2.0
// What a source counts of its reads, and what it says of those that fail: each trouble once, not once per read.
//
//   counts.note_success(bytes);
//   counts.note_failure(error);
//   read.on_done(read, tl::unexpected<io::Error>(counts.note_stale(read.path)));
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>

#include "headrace/cache/tier.h"
#include "headrace/io/mutex.h"
#include "headrace/io/result.h"

namespace headrace::cache {

class SourceCounts {
 public:
  explicit SourceCounts(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  // Of 0 bytes: a file was compared, which is no read.
  void note_success(std::uint64_t bytes);
  void note_failure(const io::Error& error);
  // Returns what the read ends with.
  [[nodiscard]] io::Error note_stale(const char* path);
  [[nodiscard]] TierStats stats() const;

 private:
  const std::string name_;
  std::atomic<std::uint64_t> reads_ = 0;
  std::atomic<std::uint64_t> read_bytes_ = 0;
  std::atomic<std::uint64_t> errors_ = 0;
  std::atomic<std::uint64_t> failures_in_a_row_ = 0;
  mutable io::Mutex mutex_;
  std::string last_failure_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_set<std::string> stale_paths_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
