// SPDX-License-Identifier: Apache-2.0
// What the client of an object store has sent, and what came of it.
//
//   counts.sent();
//   counts.answered(RequestCounts::Answer::kGood);
//   counts.fill(stats);
//
// Thread-safety: every function from any thread; the figures are exact each, not all of one moment.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "headrace/cache/object_store.h"

namespace headrace::cache {

class RequestCounts {
 public:
  enum class Answer : std::uint8_t { kGood, kRefused, kBusy, kBroken };

  void sent(bool is_list);
  void answered(Answer answer) { add(answers_[static_cast<std::size_t>(answer)]); }
  void received(std::uint64_t bytes) { add(bytes_, bytes); }
  void retried() { add(retries_); }
  void hedged() { add(hedges_); }
  void hedge_won() { add(hedges_won_); }
  void failed() { add(errors_); }
  void found_stale() { add(stale_); }
  // Of a read that succeeded.
  void took(std::chrono::nanoseconds latency);

  void fill(ObjectStoreStats& stats) const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void add(Counter& counter, std::uint64_t by = 1) { counter.fetch_add(by, std::memory_order_relaxed); }

  // From a store in the same rack to one that stalls.
  static constexpr std::array<double, 12> kSecondsMax = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                         0.1,   0.25,   0.5,   1,    5,     30};

  Counter sent_ = 0, lists_ = 0, bytes_ = 0, retries_ = 0, hedges_ = 0, hedges_won_ = 0, errors_ = 0, stale_ = 0;
  std::array<Counter, 4> answers_ = {};
  std::array<Counter, kSecondsMax.size() + 1> latencies_ = {};  // the last: longer than all bounds
  Counter latency_ns_ = 0;
};

}  // namespace headrace::cache
