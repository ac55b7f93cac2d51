// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/request_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace headrace::cache {
namespace {

using std::chrono::milliseconds;

// 64 answers tell a latency. Waiting longer costs a good part of a short epoch.
constexpr milliseconds kPeriodMin{20};
// What is in flight when the first 503 comes was sent before anybody knew; its 503s say nothing new.
constexpr milliseconds kHalveAgainAfter{500};
// With half of the requests for two latencies, of 60 ms each: a fiftieth of the rate is lost where these are too few.
constexpr std::chrono::seconds kMeasureEvery{3};
constexpr std::chrono::seconds kCarefulAfterBusy{10};
constexpr unsigned kLimitMin = 4;  // enough to notice that the store is back
// Answers come unevenly, so that a store is never without work only if some requests wait. More of them cost this
// machine memory and time: one of 1 024 in flight takes twice the processor time of one of 256.
constexpr double kGain = 1.6;
constexpr double kNothingWaits = 1.25;  // times the least: a store's latency differs by a fifth from period to period
constexpr double kNoDifference = 0.1;
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
  if (began_ == Clock::time_point()) {
    measured_ = now;
    begin_period(now, limit_);
  }
  was_enough_ = was_enough_ || is_enough;
  if (settling_ > 0) {
    if (--settling_ == 0) began_ = now;
    return;
  }
  ++done_;
  log_sum_ += std::log(std::max(std::chrono::duration<double>(took).count(), kLatencyMin));
  if (done_ >= limit_ && now - began_ >= kPeriodMin) end_period(now);
}

void RequestWindow::on_page(Clock::time_point now, Clock::duration took) {
  if (is_recovering()) return on_done(now, took, false);
  busy_share_ *= 1 - kMemory;
}

// The geometric mean: a few answers that stalled for seconds do not move it.
void RequestWindow::end_period(Clock::time_point now) {
  const double latency = std::exp(log_sum_ / done_);
  const double rate = done_ / std::chrono::duration<double>(now - began_).count();
  const unsigned limit = limit_;
  adapt(now, latency, std::min<double>(limit_, rate * latency));
  begin_period(now, limit_ == limit ? 0 : std::max(limit, limit_));
}

double RequestWindow::least() const {
  return least_before_ == 0 ? least_ : std::min(least_, least_before_);
}

void RequestWindow::adapt(Clock::time_point now, double latency, double in_flight) {
  least_ = least_ == 0 ? latency : std::min(least_, latency);
  switch (phase_) {
    case Phase::kFollowing:
      return follow(now, latency, in_flight);
    case Phase::kMeasuring:
      phase_ = Phase::kFollowing;
      return set_limit(now, back_to_);
    case Phase::kRecovering:
      return recover(now);
  }
}

void RequestWindow::follow(Clock::time_point now, double latency, double in_flight) {
  if (now - measured_ >= kMeasureEvery) return measure_least(now);
  const double change = latency < kNothingWaits * least() ? 2 : kGain * least() / latency;
  if (change >= 1 && was_enough_) return;
  if (std::abs(change - 1) > kNoDifference) set_limit(now, (change < 1 ? in_flight : limit_) * std::max(change, 0.5));
}

void RequestWindow::measure_least(Clock::time_point now) {
  measured_ = now;
  least_before_ = std::exchange(least_, 0);
  if (limit_ <= first_) return;
  phase_ = Phase::kMeasuring;
  back_to_ = limit_;
  set_limit(now, limit_ / 2.0);
}

// No less than at the beginning: where one of a hundred answers stalls, some places of few are taken all the time.
void RequestWindow::set_limit(Clock::time_point now, double limit) {
  const bool is_careful = recovered_ != Clock::time_point() && now - recovered_ < kCarefulAfterBusy;
  const unsigned most = is_careful ? std::min(max_, recovered_at_) : max_;
  limit_ = std::min(most, std::max(std::min(limit_, first_), static_cast<unsigned>(limit)));
}

void RequestWindow::recover(Clock::time_point now) {
  if (was_enough_) return;
  const unsigned most = std::min(max_, recovered_at_);
  limit_ = std::min(most, limit_ + std::max(1U, limit_ / 16));
  if (limit_ < most) return;
  phase_ = Phase::kFollowing;
  recovered_ = measured_ = now;
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
