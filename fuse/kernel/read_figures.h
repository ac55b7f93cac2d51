// SPDX-License-Identifier: Apache-2.0
// How long readers waited for the answers to READs, and why READs failed.
//
//   figures.count_wait(waited);
//   figures.count_failure(EIO);
//   for (const ReadFigures::Wait& wait : figures.waits()) print(wait.seconds_max, wait.count);
//
// Thread-safety: every function from any thread; the figures are exact each, not all of one moment.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace headrace::fuse {

class ReadFigures {
 public:
  void count_wait(std::chrono::nanoseconds waited);
  void count_failure(int error);  // an errno

  struct Wait {
    std::optional<double> seconds_max;  // more than the bound before, and at most this; nullopt: longer than all bounds
    std::uint64_t count = 0;
  };
  [[nodiscard]] std::vector<Wait> waits() const;
  [[nodiscard]] double wait_seconds() const;  // of all together
  struct Failure {
    std::string_view reason;  // "EIO"; "unknown" for what is no errno
    std::uint64_t count = 0;
  };
  [[nodiscard]] std::vector<Failure> failures() const;  // those that there were

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
