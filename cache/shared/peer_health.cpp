// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_health.h"

#include <algorithm>

namespace headrace::cache {
namespace {

constexpr unsigned kLateMax = 3;
constexpr std::chrono::seconds kDownFor{1};

// Never 0, which stands for a peer that is up.
std::int64_t ticks(PeerHealth::Clock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return std::max<std::int64_t>(1, since);
}

}  // namespace

PeerHealth::Ask PeerHealth::may_ask(Clock::time_point now) {
  std::int64_t until = down_until_ns_.load(std::memory_order_relaxed);
  if (until == 0) return Ask::kYes;
  if (ticks(now) < until) return Ask::kNo;
  return down_until_ns_.compare_exchange_strong(until, ticks(now + kDownFor)) ? Ask::kToFindOut : Ask::kNo;
}

bool PeerHealth::note_answer() {
  // This runs for each hit, so what other threads read is written only where it changes.
  if (late_in_a_row_.load(std::memory_order_relaxed) != 0) late_in_a_row_.store(0, std::memory_order_relaxed);
  return is_down() && down_until_ns_.exchange(0, std::memory_order_relaxed) != 0;
}

bool PeerHealth::note_late(Clock::time_point now) {
  const bool is_enough = late_in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1 >= kLateMax;
  return (is_enough || is_down()) && note_broken(now);
}

bool PeerHealth::note_broken(Clock::time_point now) {
  return down_until_ns_.exchange(ticks(now + kDownFor), std::memory_order_relaxed) == 0;
}

}  // namespace headrace::cache
