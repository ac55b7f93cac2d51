// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/request_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace headrace::cache {
namespace {

using std::chrono::milliseconds;

// 64 answers tell a latency. Waiting longer costs a good part of a short epoch. Where the limit is held, the latency is
// compared with one that hardly differs, and is noise over a shorter time.
constexpr milliseconds kGrowingPeriodMin{20};
constexpr milliseconds kPeriodMin{100};
// What is in flight when the first 503 comes was sent before anybody knew; its 503s say nothing new.
constexpr milliseconds kHalveAgainAfter{500};
// A trial costs the rate of one latency. Every half a second that is an eighth with latencies of 60 ms; but only while
// something changes.
constexpr milliseconds kHoldFirst{500};
constexpr milliseconds kHoldLast{16'000};
constexpr milliseconds kHoldAfterBusy{10'000};
constexpr unsigned kLimitMin = 4;  // enough to notice that the store is back
// Twice the requests in 1.8 times the latency are a tenth more rate.
constexpr double kWorthIt = 1.8;
// A store's latency differs by a fifth from one period to the next; by more where something has changed.
constexpr double kMuchSooner = 0.75;
// One answer of a hundred happens to be a 503 at any rate. One of twenty among the last 256 comes from overload, and
// where all are, 14 of them tell.
constexpr double kBusyShare = 0.05;
constexpr double kMemory = 1.0 / 256;
constexpr double kLatencyMin = 1e-6;  // seconds; what takes no time at all has a logarithm, too

}  // namespace

void RequestWindow::begin_period(Clock::time_point now, unsigned in_flight) {
  began_ = now;
  settling_ = in_flight;
  done_ = 0;
  log_sum_ = 0;
  was_enough_ = false;
}

void RequestWindow::on_done(Clock::time_point now, Clock::duration took, bool is_enough) {
  busy_share_ *= 1 - kMemory;
  if (began_ == Clock::time_point()) begin_period(now, limit_);
  was_enough_ = was_enough_ || is_enough;
  if (settling_ > 0) {
    if (--settling_ == 0) began_ = now;
    return;
  }
  ++done_;
  log_sum_ += std::log(std::max(std::chrono::duration<double>(took).count(), kLatencyMin));
  const milliseconds least = phase_ == Phase::kGrowing ? kGrowingPeriodMin : kPeriodMin;
  if (done_ >= limit_ && now - began_ >= least) end_period(now);
}

// The geometric mean: a few answers that stalled for seconds do not move it.
void RequestWindow::end_period(Clock::time_point now) {
  const double latency = std::exp(log_sum_ / done_);
  const bool was_enough = was_enough_;
  const unsigned limit = limit_;
  if (!was_enough) adapt(now, latency);
  begin_period(now, limit_ == limit ? 0 : std::max(limit, limit_));
}

void RequestWindow::adapt(Clock::time_point now, double latency) {
  switch (phase_) {
    case Phase::kGrowing:
      if (latency_before_ == 0 || latency < latency_before_ * kWorthIt) {
        grow(now, latency);
      } else if (std::exchange(was_no_better_, true)) {
        latency_held_ = latency * before_ / limit_;
        hold(now, before_);
      }
      break;
    case Phase::kHolding:
      if (latency < latency_held_ * kMuchSooner) {
        grow(now, latency);
      } else if (now - held_ >= hold_for_) {
        try_less();
      }
      break;
    case Phase::kRecovering:
      limit_ = std::min({max_, recovered_at_, limit_ + std::max(1U, limit_ / 16)});
      if (limit_ < std::min(max_, recovered_at_)) break;
      latency_held_ = 0;
      hold(now, limit_);
      hold_for_ = kHoldAfterBusy;
      break;
  }
}

void RequestWindow::grow(Clock::time_point now, double latency) {
  latency_before_ = latency;
  latency_held_ = 0;
  if (limit_ == max_) return hold(now, limit_);
  phase_ = Phase::kGrowing;
  was_no_better_ = false;
  before_ = limit_;
  limit_ = std::min(max_, limit_ * 2);
}

void RequestWindow::hold(Clock::time_point now, unsigned limit) {
  hold_for_ = limit == held_limit_ ? std::min<Clock::duration>(2 * hold_for_, kHoldLast) : kHoldFirst;
  phase_ = Phase::kHolding;
  limit_ = held_limit_ = limit;
  held_ = now;
}

// From half of it upwards, as at the beginning: so that it is found, too, that less would do. No less than at the
// beginning: where one of a hundred answers stalls, some places of few are taken all the time.
void RequestWindow::try_less() {
  phase_ = Phase::kGrowing;
  was_no_better_ = false;
  latency_before_ = 0;
  limit_ = std::max(std::min(limit_, first_), limit_ / 2);
}

void RequestWindow::on_slow_down(Clock::time_point now) {
  busy_share_ += (1 - busy_share_) * kMemory;
  if (busy_share_ < kBusyShare) return;
  if (halved_ != Clock::time_point() && now - halved_ < kHalveAgainAfter) return;
  halved_ = now;
  if (phase_ != Phase::kRecovering) recovered_at_ = limit_;
  limit_ = std::max(std::min(kLimitMin, max_), limit_ / 2);
  phase_ = Phase::kRecovering;
  begin_period(now, limit_);
}

}  // namespace headrace::cache
