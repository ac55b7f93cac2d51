// SPDX-License-Identifier: Apache-2.0
// How long requests take, and whether one that takes longer gets a second one beside it.
//
//   if (now - sent >= latencies.late_after() && latencies.may_hedge(waits, late, limit)) send_again();
//
// A few requests of a thousand take seconds for no reason of their own, and a second one is answered at once (Dean and
// Barroso, "The Tail at Scale", CACM 2013). Where many are late, the store is slow, and more requests make it slower.
//
// Thread-safety: none. Pure logic.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace headrace::cache {

class Latencies {
 public:
  using Duration = std::chrono::steady_clock::duration;

  explicit Latencies(Duration floor) : floor_(floor) {}

  void note(Duration latency);
  [[nodiscard]] Duration percentile(unsigned percent) const;  // of the last kKept; 0: nothing is known

  // From when on a request is late: half as long again as 99 of 100 take, or three times what 95 take, if that is less.
  // No sooner than the floor.
  [[nodiscard]] Duration late_after() const { return late_after_; }
  void note_sent() { ++sent_; }
  // Whether another one may be sent beside one that is late: of 100 at most 3, or 2 for those that nobody `waits` for
  // yet, and a few at first. None while more than a tenth of the `limit` of requests that may be in flight is `late`.
  [[nodiscard]] bool may_hedge(bool waits, std::size_t late, unsigned limit);
  [[nodiscard]] std::size_t count() const { return count_; }  // of what was noted

 private:
  static constexpr std::size_t kKept = 512;
  static constexpr std::size_t kLookEvery = 64;  // finding a percentile takes 5 us

  const Duration floor_;
  std::array<Duration, kKept> last_ = {};
  std::size_t count_ = 0;
  Duration late_after_ = floor_;
  std::uint64_t sent_ = 0;
  std::uint64_t hedges_ = 0;
};

}  // namespace headrace::cache
