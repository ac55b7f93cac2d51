// SPDX-License-Identifier: Apache-2.0
// What one peer was asked for, and how it answered.
//
//   figures.note_get(Outcome::kDone, payload_bytes, took);
//   figures.add_to(stats);
//
// Thread-safety: note_get() by one thread at a time, the rest from any thread; add_to() gives no consistent picture of
// several figures.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "headrace/cache/shared/peer_connection.h"
#include "headrace/cache/tier.h"

namespace headrace::cache {

class PeerFigures {
 public:
  using Outcome = PeerRequest::Outcome;

  void note_get(Outcome outcome, std::uint64_t bytes, std::chrono::nanoseconds took);
  void note_put(Outcome outcome, std::uint64_t bytes);
  // A get whose outcome was kComing and that is made again.
  void note_wait() { add(waits_); }
  [[nodiscard]] bool is_full() const { return full_.load(std::memory_order_relaxed); }
  void add_to(PeerStats& stats) const;

  // For note_get(), one thread at a time: what was given in that second of a steady clock.
  void note_given(std::uint64_t bytes, std::int64_t second);
  // The mean of the ten whole seconds before that one.
  [[nodiscard]] double bytes_per_second(std::int64_t second) const;

 private:
  using Count = std::atomic<std::uint64_t>;
  // Twice as long each: the first holds what took less than a microsecond, the last what took over a second.
  static constexpr std::size_t kBuckets = 22;

  static void add(Count& count, std::uint64_t what = 1) { count.fetch_add(what, std::memory_order_relaxed); }
  [[nodiscard]] double seconds_at(double part) const;

  Count hits_ = 0;
  Count hit_bytes_ = 0;
  Count misses_ = 0;
  Count waits_ = 0;
  Count writes_ = 0;
  Count write_bytes_ = 0;
  Count errors_ = 0;
  Count corrupt_ = 0;
  std::atomic<bool> full_ = false;
  std::array<Count, kBuckets> took_ = {};  // of the gets that were answered
  struct Second {
    std::atomic<std::int64_t> number = -1;
    Count bytes = 0;
  };
  static constexpr std::int64_t kRateSeconds = 10;
  std::array<Second, kRateSeconds + 2> seconds_ = {};  // by number modulo its size; the current one is not whole
};

}  // namespace headrace::cache
