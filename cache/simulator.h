// SPDX-License-Identifier: Apache-2.0
// What a cache of some size would do for a job: replays an order, or a recorded trace, over tiers and policies.
//
//   Result<Trace> trace = trace_of(order, {.epochs = 4});
//   SimulationResult lru = simulate(*trace, sizes, {.tiers = {{PolicyKind::kLru, 100 << 30}}});
//   print(lru.hit_ratio(), lru.source_reads, lru.minimum_source_reads);
//
// A recorded trace is an order file (file:PATH, one path or index per line). Ratios leave the warm-up epochs out.
// Memory: 12 bytes per read of the trace, and some 20 per sample.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/policy.h"

namespace headrace::cache {

// Reads in the sequence in which they happen.
struct Trace {
  std::vector<SampleIndex> reads;
  std::vector<std::uint64_t> epoch_ends;  // in `reads`, one per epoch, rising
};

struct TraceOptions {
  std::uint64_t first_epoch = 0;
  std::uint64_t epochs = 4;
};

// Errors: those of Order::epoch().
[[nodiscard]] Result<Trace> trace_of(const Order& order, const TraceOptions& options);
struct SimulatedTier {
  PolicyKind policy = PolicyKind::kNeverEvict;
  std::uint64_t capacity_bytes = 0;
};

struct SimulationOptions {
  std::vector<SimulatedTier> tiers;  // fastest first; a tier is offered what those before it missed and did not take in
  std::uint64_t warmup_epochs = 1;   // not counted; all of them counted if the trace has no more
};

struct SimulatedTierResult {
  std::uint64_t hits = 0;
  std::uint64_t hit_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t write_bytes = 0;
};

// Sums over the epochs that count.
struct SimulationResult {
  std::uint64_t epochs = 0;
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::vector<SimulatedTierResult> tiers;
  std::uint64_t source_reads = 0;
  std::uint64_t source_bytes = 0;
  // No policy gets by with fewer: of the samples that an epoch reads, the cache can hold at its start no more than fit,
  // smallest first (N - C where sizes are equal and each sample is read once).
  std::uint64_t minimum_source_reads = 0;

  [[nodiscard]] double hit_ratio() const;
  [[nodiscard]] double byte_hit_ratio() const;
  [[nodiscard]] double writes_per_read() const;
};

// The source reads that no policy gets by without in an epoch of these reads: each different sample comes from the
// source once, but for those that were held before, of which no more fit than the smallest ones.
[[nodiscard]] std::uint64_t minimum_source_reads(std::span<const SampleIndex> reads,
                                                 std::span<const std::uint32_t> sizes, std::uint64_t capacity_bytes);

// `sizes`: bytes of each sample.
[[nodiscard]] SimulationResult simulate(const Trace& trace, std::span<const std::uint32_t> sizes,
                                        const SimulationOptions& options);

// What a tier or the source delivers; 0: no limit.
struct Rate {
  double bytes_per_second = 0;
  double reads_per_second = 0;
};

// Predicted time of one epoch that counts. Fetching runs ahead, so tiers and source work side by side and the slowest
// of them decides. `tiers` fit result.tiers.
[[nodiscard]] double epoch_seconds(const SimulationResult& result, std::span<const Rate> tiers, const Rate& source);

}  // namespace headrace::cache
