// SPDX-License-Identifier: Apache-2.0
// Whether a peer is asked. One that breaks off is down at once, one that is late when it was late three times in a row:
// a lost packet makes a good peer late, because TCP sends it again after 200 ms at the soonest. While a peer is down,
// one request a second finds out whether it is back; any answer to a get says so.
//
//   switch (health.may_ask(now)) { ... }
//   if (health.note_late(now)) log_warning(...);   // it is down from now on
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace headrace::cache {

class PeerHealth {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Ask : std::uint8_t { kNo, kYes, kToFindOut };

  // kToFindOut: the peer is down, and the caller's request is the one that finds out.
  [[nodiscard]] Ask may_ask(Clock::time_point now);
  [[nodiscard]] bool is_down() const { return down_until_ns_.load(std::memory_order_relaxed) != 0; }
  // True: it was down until now.
  bool note_answer();
  // True: it was up until now.
  bool note_late(Clock::time_point now);
  bool note_broken(Clock::time_point now);

 private:
  std::atomic<std::int64_t> down_until_ns_ = 0;  // 0: it is up
  std::atomic<unsigned> late_in_a_row_ = 0;
};

}  // namespace headrace::cache
