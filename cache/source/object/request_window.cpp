// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/request_window.h"

#include <algorithm>
#include <utility>

namespace headrace::cache {
namespace {

using std::chrono::milliseconds;

// While it grows each step raises the rate by as much as it can: 64 answers tell that. Waiting longer costs a good part
// of a short epoch. Later a rate is compared with one that hardly differs, and is noise over a shorter time.
constexpr milliseconds kGrowingPeriodMin{20};
constexpr milliseconds kPeriodMin{100};
// What is in flight when the first 503 comes was sent before anybody knew; its 503s say nothing new.
constexpr milliseconds kHalveAgainAfter{500};
constexpr milliseconds kTryAgainAfter{10'000};
constexpr unsigned kLimitMin = 4;  // enough to notice that the store is back
constexpr double kWorthIt = 1.1;
// One answer of a hundred happens to be a 503 at any rate. One of twenty among the last 256 comes from overload, and
// where all are, 14 of them tell.
constexpr double kBusyShare = 0.05;
constexpr double kMemory = 1.0 / 256;

}  // namespace

void RequestWindow::begin_period(Clock::time_point now) {
  began_ = now;
  settling_ = limit_;
  done_ = 0;
  was_enough_ = false;
}

void RequestWindow::on_done(Clock::time_point now, bool is_enough) {
  busy_share_ *= 1 - kMemory;
  if (began_ == Clock::time_point()) begin_period(now);
  was_enough_ = was_enough_ || is_enough;
  if (settling_ > 0) {
    if (--settling_ == 0) began_ = now;
    return;
  }
  ++done_;
  const milliseconds least = phase_ == Phase::kGrowing ? kGrowingPeriodMin : kPeriodMin;
  if (done_ >= limit_ && now - began_ >= least) end_period(now);
}

void RequestWindow::end_period(Clock::time_point now) {
  const double rate = static_cast<double>(done_) / std::chrono::duration<double>(now - began_).count();
  const bool was_enough = was_enough_;
  const unsigned limit = limit_;
  if (!was_enough) adapt(now, rate);
  begin_period(now);
  if (limit_ == limit) settling_ = 0;
}

void RequestWindow::adapt(Clock::time_point now, double rate) {
  switch (phase_) {
    case Phase::kGrowing:
      if (best_rate_ > 0 && rate < best_rate_ * kWorthIt) {
        if (!std::exchange(was_no_better_, true)) break;
        was_no_better_ = false;
        limit_ = before_;
        phase_ = Phase::kHolding;
        held_ = now;
        break;
      }
      was_no_better_ = false;
      best_rate_ = rate;
      before_ = limit_;
      limit_ = std::min(max_, limit_ * 2);
      break;
    case Phase::kHolding:
      if (now - held_ < kTryAgainAfter || limit_ == max_) break;
      best_rate_ = rate;
      before_ = limit_;
      limit_ = std::min(max_, limit_ * 2);
      phase_ = Phase::kGrowing;
      break;
    case Phase::kRecovering:
      limit_ = std::min({max_, recovered_at_, limit_ + std::max(1U, limit_ / 16)});
      if (limit_ < std::min(max_, recovered_at_)) break;
      phase_ = Phase::kHolding;
      before_ = limit_;
      held_ = now;
      break;
  }
}

void RequestWindow::on_slow_down(Clock::time_point now) {
  busy_share_ += (1 - busy_share_) * kMemory;
  if (busy_share_ < kBusyShare) return;
  if (halved_ != Clock::time_point() && now - halved_ < kHalveAgainAfter) return;
  halved_ = now;
  if (phase_ != Phase::kRecovering) recovered_at_ = limit_;
  limit_ = std::max(std::min(kLimitMin, max_), limit_ / 2);
  phase_ = Phase::kRecovering;
  begin_period(now);
}

}  // namespace headrace::cache
