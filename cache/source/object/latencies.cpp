// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/latencies.h"

#include <algorithm>
#include <vector>

namespace headrace::cache {
namespace {

constexpr double kMemory = 1.0 / 128;  // of late_share_: the weight of the newest
constexpr double kLateShareMax = 0.10;

}  // namespace

void Latencies::note(Duration latency) {
  last_[count_++ % kKept] = latency;
  late_share_ *= 1 - kMemory;
  if (count_ % kLookEvery == 0) late_after_ = std::max(floor_, std::min(3 * percentile(95), percentile(99) * 3 / 2));
}

Latencies::Duration Latencies::percentile(unsigned percent) const {
  const std::size_t known = std::min(count_, kKept);
  if (known == 0) return {};
  std::vector<Duration> sorted(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(known));
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(known - 1, known * percent / 100));
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

void Latencies::note_late() {
  late_share_ += kMemory;
}

bool Latencies::may_hedge(bool waits) {
  if (late_share_ > kLateShareMax) return false;
  // One is free: three of a hundred of the first reads are none.
  if (hedges_ * 100 >= sent_ * (waits ? 3 : 2) + 100) return false;
  ++hedges_;
  return true;
}

}  // namespace headrace::cache
