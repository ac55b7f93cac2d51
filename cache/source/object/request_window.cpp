// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/request_window.h"

#include <algorithm>

namespace headrace::cache {
namespace {

using std::chrono::milliseconds;

// Shorter, and a rate is noise: at 64 in flight and 50 ms, 128 answers come within it.
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
  done_ = 0;
  was_enough_ = false;
}

void RequestWindow::on_done(Clock::time_point now, bool is_enough) {
  busy_share_ *= 1 - kMemory;
  if (began_ == Clock::time_point()) begin_period(now);
  ++done_;
  was_enough_ = was_enough_ || is_enough;
  // All that is in flight turns over once at least, or the rate is still that of the limit before.
  if (done_ >= limit_ && now - began_ >= kPeriodMin) end_period(now);
}

void RequestWindow::end_period(Clock::time_point now) {
  const double rate = static_cast<double>(done_) / std::chrono::duration<double>(now - began_).count();
  const bool was_enough = was_enough_;
  begin_period(now);
  if (was_enough) return;
  switch (phase_) {
    case Phase::kGrowing:
      if (best_rate_ > 0 && rate < best_rate_ * kWorthIt) {
        limit_ = before_;
        phase_ = Phase::kHolding;
        held_ = now;
        break;
      }
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
