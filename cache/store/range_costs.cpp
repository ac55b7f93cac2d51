// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/range_costs.h"

#include <algorithm>

namespace headrace::cache {

bool RangeCosts::note(ChunkKey chunk, std::uint64_t length) {
  const std::uint64_t most = read_cost(kChunkBytes);
  const auto cost = static_cast<std::uint32_t>(std::min(most, read_cost(length)));
  std::atomic<std::uint32_t>& paid = costs_[hash_of(chunk) % costs_.size()];
  if (paid.fetch_add(cost, std::memory_order_relaxed) + cost < most) return false;
  paid.store(0, std::memory_order_relaxed);
  return true;
}

}  // namespace headrace::cache
