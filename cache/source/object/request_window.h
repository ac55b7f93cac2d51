// SPDX-License-Identifier: Apache-2.0
// How many requests are in flight: as many as bring more, fewer after the store has asked to slow down.
//
//   if (in_flight < window.limit()) send();
//   window.on_done(now, now - sent, queue_is_empty);
//
// The rate of a store is requests in flight over latency, until its limit or the network's is met; from there on twice
// as many requests take twice as long. So the limit doubles while latency stays well below twice of what it was, and
// goes back by one doubling when it does not, twice in a row. A doubling takes two latencies: in the first, what was
// sent under the limit before is still answered; the second is measured.
//
// What a step back has found out is true for as long as the store is as slow as it was then. Where a machine is busy
// for half a second (a training starts on it), all steps of that time seem to bring nothing. So the limit grows again
// at once when answers come much sooner than they should by the last step. And it is looked for anew after a while,
// from half of the limit on but no less than the first one, because a network has better and worse times; later each
// time that nothing has changed.
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

  RequestWindow(unsigned first, unsigned max) : limit_(first), first_(first), max_(max), before_(first) {}

  [[nodiscard]] unsigned limit() const { return limit_; }
  // The store has asked to slow down, and the limit is not yet back.
  [[nodiscard]] bool is_recovering() const { return phase_ == Phase::kRecovering; }
  // A request has ended well, `took` after it was sent. `is_enough`: nothing waited for its turn, so that the latency
  // says nothing about the limit.
  void on_done(Clock::time_point now, Clock::duration took, bool is_enough);
  void on_slow_down(Clock::time_point now);

 private:
  void end_period(Clock::time_point now);
  void adapt(Clock::time_point now, double latency);
  void grow(Clock::time_point now, double latency);
  void hold(Clock::time_point now, unsigned limit);
  void try_less();
  void begin_period(Clock::time_point now, unsigned in_flight);

  enum class Phase : std::uint8_t { kGrowing, kHolding, kRecovering };

  unsigned limit_;
  const unsigned first_;
  const unsigned max_;
  unsigned before_;            // the limit before the last doubling
  double latency_before_ = 0;  // and what requests took with it, in seconds; 0: not known
  double latency_held_ = 0;    // kHolding: what they take now if nothing has changed; 0: not known
  unsigned held_limit_ = 0;    // the last one that was held
  unsigned recovered_at_ = 0;  // kRecovering: the limit that was too much
  Phase phase_ = Phase::kGrowing;
  Clock::time_point began_ = {};  // the period
  Clock::time_point halved_ = {};
  Clock::time_point held_ = {};
  Clock::duration hold_for_ = {};
  unsigned settling_ = 0;  // answers before the period begins
  unsigned done_ = 0;
  double log_sum_ = 0;          // of what these took
  bool was_no_better_ = false;  // the last period
  bool was_enough_ = false;
  double busy_share_ = 0;  // of the last answers, those that asked to slow down
};

}  // namespace headrace::cache
