// SPDX-License-Identifier: Apache-2.0
// How long readers waited for the answers to READs, and why READs failed.
//
//   figures.count_wait(waited);
//   figures.count_failure(EIO);
//   figures.add_stats(stats);
//
// Thread-safety: every function from any thread; the figures are exact each, not all of one moment.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "headrace/fuse/mount_stats.h"

namespace headrace::fuse {

class ReadFigures {
 public:
  void count_wait(std::chrono::nanoseconds waited);
  void count_failure(int error);  // an errno
  void add_stats(MountStats& stats) const;

 private:
  // From a READ that a disk answers at once to one that waits for a server that is gone, three to a decade.
  static constexpr std::array<double, 14> kSecondsMax = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                         0.025,  0.05,    0.1,    0.25,  1,      5,     30};
  static constexpr std::size_t kErrors = 134;  // EHWPOISON is the last; others count as 0

  std::array<std::atomic<std::uint64_t>, kSecondsMax.size() + 1> waits_ = {};  // the last: longer than all bounds
  std::atomic<std::uint64_t> wait_ns_ = 0;
  std::array<std::atomic<std::uint64_t>, kErrors> failures_ = {};
};

}  // namespace headrace::fuse
