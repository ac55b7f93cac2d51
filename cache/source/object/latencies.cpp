// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/latencies.h"

#include <algorithm>
#include <vector>

namespace headrace::cache {
namespace {

// Of the first 256 that are in flight at once several may stall, and 3 of 100 are not one yet. No store notices eight.
constexpr std::uint64_t kFirstHedges = 8;

}  // namespace

void Latencies::note(Duration latency) {
  last_[count_++ % kKept] = latency;
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

bool Latencies::may_hedge(bool waits, std::size_t late, unsigned limit) {
  if (late > 1 + limit / 10) return false;
  if (hedges_ * 100 >= sent_ * (waits ? 3 : 2) + kFirstHedges * 100) return false;
  ++hedges_;
  return true;
}

}  // namespace headrace::cache
