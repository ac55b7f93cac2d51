// SPDX-License-Identifier: Apache-2.0
// Spaces reads ahead so that they take no more than so many bytes a second from the source. Time in which nothing was
// fetched is not made up for: the source is to have its rest in each second.
//
//   SourceRate rate;
//   rate.set(100 << 20);
//   if (rate.is_due(now)) { fetch(); rate.charge(bytes, now); }
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace headrace::fuse {

class SourceRate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // 0: no limit.
  void set(std::uint64_t bytes_per_second) {
    bytes_per_second_ = bytes_per_second;
    due_ = {};
  }
  [[nodiscard]] std::uint64_t bytes_per_second() const { return bytes_per_second_; }
  [[nodiscard]] bool is_limited() const { return bytes_per_second_ > 0; }
  [[nodiscard]] bool is_due(Time now) const { return !is_limited() || now >= due_; }
  // Of the next fetch.
  [[nodiscard]] Time due() const { return due_; }
  void charge(std::uint64_t bytes, Time now) {
    if (!is_limited() || bytes == 0) return;
    const std::chrono::duration<double> cost(static_cast<double>(bytes) / static_cast<double>(bytes_per_second_));
    // A year: beyond that a clock's numbers end, and nobody waits for it.
    const auto longest = std::chrono::duration<double>(std::chrono::hours(24 * 365));
    due_ = std::max(due_, now) + std::chrono::duration_cast<Time::duration>(std::min(cost, longest));
  }

 private:
  std::uint64_t bytes_per_second_ = 0;
  Time due_ = {};
};

}  // namespace headrace::fuse
