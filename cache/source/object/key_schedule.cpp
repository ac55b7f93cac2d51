// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/key_schedule.h"

#include <algorithm>

namespace headrace::cache {
namespace {

using std::chrono::seconds;

constexpr std::chrono::minutes kRenewBefore{5};
constexpr seconds kTryAgainAfter{10};
constexpr seconds kLookMin{1};
constexpr std::chrono::minutes kPauseMax{5};  // a service that gives keys out is asked by every node
constexpr std::chrono::hours kNever{24 * 365};

// Keys that live for a few minutes only are renewed at half of their time.
KeySchedule::Steady time_to_renew(std::optional<KeySchedule::Wall> expires, const KeySchedule::Now& now) {
  if (!expires) return now.steady + kNever;
  const auto left = *expires - now.wall;
  const auto wait = left > 2 * kRenewBefore ? left - kRenewBefore : left / 2;
  return now.steady + std::clamp<std::chrono::steady_clock::duration>(wait, kLookMin, kNever);
}

}  // namespace

KeySchedule::KeySchedule(std::optional<Wall> expires, const Now& now)
    : next_look_(time_to_renew(expires, now)), pause_(kTryAgainAfter) {}

bool KeySchedule::may_look(Steady now) const {
  return now - last_look_ >= kLookMin;
}

void KeySchedule::on_none(const Now& now) {
  last_look_ = now.steady;
  next_look_ = now.steady + kTryAgainAfter;
}

bool KeySchedule::on_found(std::optional<Wall> expires, const Now& now) {
  last_look_ = now.steady;
  if (!expires || *expires > now.wall) {
    pause_ = kTryAgainAfter;
    next_look_ = time_to_renew(expires, now);
    return false;
  }
  // Their source has no others, or this machine's clock is fast. A store that refuses them has them looked for at once.
  const bool is_new = pause_ == kTryAgainAfter;
  next_look_ = now.steady + pause_;
  pause_ = std::min<seconds>(2 * pause_, kPauseMax);
  return is_new;
}

}  // namespace headrace::cache
