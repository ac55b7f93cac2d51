// SPDX-License-Identifier: Apache-2.0
// How many requests are in flight: as many as bring more, fewer after the store has asked to slow down.
//
//   if (in_flight < window.limit()) send();
//   window.on_done(now, now - sent, queue_is_empty);
//
// The rate of a store is requests in flight over latency, until its limit, the network's or this machine's is met; from
// there on more requests only wait longer. How long an answer takes when nothing waits is known: it is the least that a
// period took. So the limit goes to where latency is kGain times that: above, it is cut by what is too much; below, it
// grows, by a doubling while nothing waits at all. A change takes two latencies: in the first, what was sent under the
// limit before is still answered; the second is measured.
//
// The least latency of a store changes: a network has better and worse times. So it is measured anew every few seconds,
// with half of the requests, and what is older than the measurement before is forgotten. It is remembered over two of
// them, because in one a machine may be busy with something else (a training starts on it). Where fewer requests come
// than the limit lets, nothing is known of more; but that they wait shows all the same.
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

  RequestWindow(unsigned first, unsigned max) : limit_(first), first_(first), max_(max) {}

  [[nodiscard]] unsigned limit() const { return limit_; }
  // The store has asked to slow down, and the limit is not yet back.
  [[nodiscard]] bool is_recovering() const { return phase_ == Phase::kRecovering; }
  // A request has ended well, `took` after it was sent. `is_enough`: nothing waited for its turn, so that the latency
  // says nothing about the limit.
  void on_done(Clock::time_point now, Clock::duration took, bool is_enough);
  // The same of a page of a listing. It takes another time than an object, which says nothing about how many are too
  // many; but it says that the store is back.
  void on_page(Clock::time_point now, Clock::duration took);
  void on_slow_down(Clock::time_point now);

 private:
  void end_period(Clock::time_point now);
  void adapt(Clock::time_point now, double latency, double in_flight);
  void recover(Clock::time_point now);
  void follow(Clock::time_point now, double latency, double in_flight);
  void measure_least(Clock::time_point now);
  void set_limit(Clock::time_point now, double limit);
  void begin_period(Clock::time_point now, unsigned in_flight);
  [[nodiscard]] double least() const;

  enum class Phase : std::uint8_t { kFollowing, kMeasuring, kRecovering };

  unsigned limit_;
  const unsigned first_;
  const unsigned max_;
  double least_ = 0;           // that a period took since the last measurement, in seconds; 0: not known
  double least_before_ = 0;    // between the two before
  unsigned back_to_ = 0;       // kMeasuring: the limit before
  unsigned recovered_at_ = 0;  // kRecovering and for a while after it: the limit that was too much
  Phase phase_ = Phase::kFollowing;
  Clock::time_point began_ = {};  // the period
  Clock::time_point halved_ = {};
  Clock::time_point measured_ = {};
  Clock::time_point recovered_ = {};
  unsigned settling_ = 0;  // answers before the period begins
  unsigned done_ = 0;
  double log_sum_ = 0;  // of what these took
  bool was_enough_ = false;
  double busy_share_ = 0;  // of the last answers, those that asked to slow down
};

}  // namespace headrace::cache
