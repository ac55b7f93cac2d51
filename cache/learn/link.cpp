// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/link.h"

#include <algorithm>

#include <fmt/format.h>

#include "headrace/cache/learn/candidates.h"
#include "headrace/cache/order/mt19937.h"

namespace headrace::cache {

std::optional<StreamLink> find_link(std::uint32_t epoch_seed, std::uint64_t outputs,
                                    const std::atomic<bool>& cancelled) {
  constexpr std::uint64_t kBlock =
      std::uint64_t{Mt19937::kStateWords} * 16'384;  // a few milliseconds between looks at `cancelled`
  for (const std::uint64_t seed : usual_seeds()) {
    Mt19937 stream(static_cast<std::uint32_t>(seed));
    for (std::uint64_t block = 0; block < outputs; block += kBlock) {
      if (cancelled.load(std::memory_order_relaxed)) return std::nullopt;
      const std::optional<std::uint64_t> found = stream.find(epoch_seed, std::min(kBlock, outputs - block));
      if (!found) continue;
      // The seed is the second output of a draw, so it cannot be the stream's first.
      if (block + *found > 0) return StreamLink{.seed = seed, .output = block + *found};
      break;
    }
  }
  return std::nullopt;
}

std::string linked_spec(const StreamLink& link, std::uint64_t stride) {
  return fmt::format("torch-random:seed={},loader=0,offset={},stride={}", link.seed, link.output - 1, stride);
}

std::vector<std::uint32_t> seeds_after(const StreamLink& link, std::uint64_t count) {
  Mt19937 stream(static_cast<std::uint32_t>(link.seed));
  stream.discard(link.output + 1);
  std::vector<std::uint32_t> seeds(count);
  for (std::uint32_t& seed : seeds) seed = stream.next32();
  return seeds;
}

}  // namespace headrace::cache
