// SPDX-License-Identifier: Apache-2.0
// How many requests are in flight: as many as bring more, fewer after the store has asked to slow down.
//
//   if (in_flight < window.limit()) send();
//   window.on_done(now, queue_is_empty);
//
// The rate of a store is requests in flight over latency, until its limit or the network's is met. So the limit doubles
// while that raises the rate by a tenth, and goes back by one doubling when it does not, twice in a row. It is tried
// again after a while, because a network has better and worse times. A doubling takes two latencies: in the first, what
// was sent under the limit before is still answered; the second is measured.
//
// Where the store answers with 503, the limit halves, once for all requests that were under way together, and comes
// back by a sixteenth at a time: a client that comes back at once is refused at once, and one that never comes back
// stays slow for good (tensorflow/io#1953). A 503 now and then is no sign of a store that has too much to do, and is
// only tried again.
//
// Thread-safety: none. Pure logic; the caller says what time it is.
#pragma once

#include <chrono>
#include <cstdint>

namespace headrace::cache {

class RequestWindow {
 public:
  using Clock = std::chrono::steady_clock;

  RequestWindow(unsigned first, unsigned max) : limit_(first), max_(max), before_(first) {}

  [[nodiscard]] unsigned limit() const { return limit_; }
  // A request has ended well. `is_enough`: nothing waited for its turn, so that the rate says nothing about the limit.
  void on_done(Clock::time_point now, bool is_enough);
  void on_slow_down(Clock::time_point now);

 private:
  void end_period(Clock::time_point now);
  void adapt(Clock::time_point now, double rate);
  void begin_period(Clock::time_point now);

  enum class Phase : std::uint8_t { kGrowing, kHolding, kRecovering };

  unsigned limit_;
  const unsigned max_;
  unsigned before_;            // the limit that `best_rate_` was reached with
  unsigned recovered_at_ = 0;  // kRecovering: the limit that was too much
  double best_rate_ = 0;       // per second
  Phase phase_ = Phase::kGrowing;
  Clock::time_point began_ = {};  // the period
  Clock::time_point halved_ = {};
  Clock::time_point held_ = {};
  unsigned settling_ = 0;  // answers before the period begins
  unsigned done_ = 0;
  bool was_no_better_ = false;  // the last period
  bool was_enough_ = false;
  double busy_share_ = 0;  // of the last answers, those that asked to slow down
};

}  // namespace headrace::cache
