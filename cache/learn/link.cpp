// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/link.h"

#include <algorithm>

#include <fmt/format.h>

#include "headrace/cache/learn/candidates.h"
#include "headrace/cache/order/mt19937.h"

namespace headrace::cache {

double links_by_chance(std::uint64_t outputs) {
  return static_cast<double>(usual_seeds().size()) * static_cast<double>(outputs) / 0x1p32;
}

void find_links(std::uint32_t epoch_seed, std::uint64_t outputs, const std::atomic<bool>& cancelled,
                const std::function<void(const StreamLink&)>& found) {
  constexpr std::uint64_t kBlock =
      std::uint64_t{Mt19937::kStateWords} * 16'384;  // a few milliseconds between looks at `cancelled`
  std::size_t links = 0;
  for (const std::uint64_t seed : usual_seeds()) {
    Mt19937 stream(static_cast<std::uint32_t>(seed));
    for (std::uint64_t at = 0; at < outputs;) {
      if (cancelled.load(std::memory_order_relaxed)) return;
      const std::uint64_t block = kBlock - at % kBlock;  // find() ends with its state's words
      const std::optional<std::uint64_t> hit = stream.find(epoch_seed, block);
      const std::uint64_t output = at + hit.value_or(0);
      at = hit ? output + 1 : at + block;
      // The seed is the second output of a draw, so it cannot be the stream's first.
      if (!hit || output == 0 || output >= outputs) continue;
      found(StreamLink{.seed = seed, .output = output});
      if (++links == kMostLinks) return;
    }
  }
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
