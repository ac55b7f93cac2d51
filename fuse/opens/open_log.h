// SPDX-License-Identifier: Apache-2.0
// The last opens of samples that the mount saw, for whoever wants to compare them with an order.
//
//   OpenLog log;
//   log.add(samples);
//   const OpenLog::Part part = log.from(0);   // part.first: the number of its first open
//
// Thread-safety: every function from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class OpenLog {
 public:
  // An order shows in 4096 opens at most (cache::OpenSet); these hold the turns between some epochs of small data sets,
  // too, in 256 KiB.
  static constexpr std::size_t kMost = std::size_t{1} << 16;

  void add(std::span<const cache::SampleIndex> samples) {
    io::MutexLock lock(mutex_);
    for (const cache::SampleIndex sample : samples) {
      if (opens_.size() < kMost) {
        opens_.push_back(sample);
      } else {
        opens_[count_ % kMost] = sample;
      }
      ++count_;
    }
  }

  struct Part {
    std::uint64_t first = 0;
    std::vector<cache::SampleIndex> opens;
  };
  // The opens from that number on, as far as they are kept.
  [[nodiscard]] Part from(std::uint64_t first) const {
    io::MutexLock lock(mutex_);
    Part part{.first = std::clamp(first, count_ - opens_.size(), count_), .opens = {}};
    for (std::uint64_t number = part.first; number < count_; ++number) part.opens.push_back(opens_[number % kMost]);
    return part;
  }

 private:
  mutable io::Mutex mutex_;
  std::vector<cache::SampleIndex> opens_ HEADRACE_GUARDED_BY(mutex_);  // a ring, once it is full
  std::uint64_t count_ HEADRACE_GUARDED_BY(mutex_) = 0;                // since the start
};

}  // namespace headrace::fuse
