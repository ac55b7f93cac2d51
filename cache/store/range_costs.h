// SPDX-License-Identifier: Apache-2.0
// Range or whole chunk: what each costs the source.
//
//   if (costs.note({entry, chunk}, length)) ...;   // by now the chunk is the better buy
//
// Whoever reads one range of a chunk may come back for others, or not, and nobody knows. So a chunk is brought once its
// ranges have cost as much as it does: whatever comes, the source gives at most twice of what would have been best.
// This holds only for a chunk that can stay; the caller knows whether it can.
//
// Thread-safety: every function from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "headrace/cache/chunk.h"

namespace headrace::cache {

// What a read costs beside its bytes, in bytes. 64 KiB: about what a fast disk, the cheapest source to ask, delivers in
// the time that a request takes.
inline constexpr std::uint64_t kRequestCostBytes = 64 << 10;

[[nodiscard]] constexpr std::uint64_t read_cost(std::uint64_t length) {
  return kRequestCostBytes + length;
}

class RangeCosts {
 public:
  // Counts a range that lies in the chunk. True: its ranges have cost as much as the chunk would; counting begins anew.
  [[nodiscard]] bool note(ChunkKey chunk, std::uint64_t length);

 private:
  // 16 384 chunks are 64 GiB, and 64 KiB of memory. Chunks that share a count are brought the earlier.
  std::array<std::atomic<std::uint32_t>, 16384> costs_ = {};
};

}  // namespace headrace::cache
