// SPDX-License-Identifier: Apache-2.0
// CPU time for work that may well be in vain: some to begin with, then a share of the time that passes (a token
// bucket).
//
//   CpuAllowance allowance(0.05, 10);
//   if (allowance.has_any(Clock::now())) { work(); allowance.spend(cpu_seconds_of_it); }
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace headrace::cache {

class CpuAllowance {
 public:
  using Clock = std::chrono::steady_clock;

  // `share` of one core; at most `most_seconds` are saved up, and there from the start.
  CpuAllowance(double share, double most_seconds) : share_(share), most_seconds_(most_seconds), saved_(most_seconds) {}

  [[nodiscard]] bool has_any(Clock::time_point now) {
    const double passed = last_ ? std::chrono::duration<double>(now - *last_).count() : 0;
    last_ = now;
    saved_ = std::min(most_seconds_, saved_ + share_ * passed);
    return saved_ > 0;
  }
  // May become negative: what was begun is brought to its end.
  void spend(double seconds) { saved_ -= seconds; }

 private:
  const double share_;
  const double most_seconds_;
  double saved_;
  std::optional<Clock::time_point> last_;
};

}  // namespace headrace::cache
