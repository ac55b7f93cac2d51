// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/waste_watch.h"

namespace headrace::fuse {
namespace {

double growth(std::uint64_t before, std::uint64_t now) {
  return static_cast<double>(now) - static_cast<double>(before);
}

}  // namespace

void WasteWatch::note(const Counts& now) {
  const Counts before = std::exchange(last_, now);
  if (!std::exchange(is_based_, true)) return;
  held_max_ = std::max(held_max_, now.held);
  const double taken = growth(before.fetched, now.fetched) - growth(before.held, now.held);
  const double allowed = growth(before.met, now.met) + kAllowedShare * growth(before.opens, now.opens);
  waste_ = is_paused() ? 0 : std::max(0.0, waste_ + taken - allowed);  // in a pause what was held goes, as it may
  if (const double bound = kSlack + static_cast<double>(held_max_); waste_ > bound) pause(bound);
}

// The shortest again, where all went well for as long as the pause before this one lasted.
void WasteWatch::pause(double wasted) {
  if (growth(pause_ends_, last_.opens) > length_ * wasted) length_ = kShortest;
  pause_ends_ = last_.opens + static_cast<std::uint64_t>(length_ * wasted);
  length_ = std::min(2 * length_, kLongest);
  waste_ = 0;
  held_max_ = last_.held;
  is_excused_ = false;
  ++pauses_;
}

}  // namespace headrace::fuse
