// SPDX-License-Identifier: Apache-2.0
// What most families are: a list drawn anew for every epoch, padded or cut, and dealt to the ranks.
//
//   return make_sharded_order(parameters, {.list_length = n, .draw = draw, .shards = shards, .workers = workers});
//
// Thread-safety: immutable.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/order/parameters.h"

namespace headrace::cache {

using io::Status;
using Samples = std::vector<SampleIndex>;
// The first min(count, list length) elements of an epoch's list, before it is padded and dealt.
using DrawList = std::function<Result<Samples>(std::uint64_t epoch, std::uint64_t count)>;

// How the positions of a list are dealt: `group` consecutive ones to each rank in turn.
struct Shards {
  std::uint64_t total = 0;  // positions dealt; beyond the list's length it starts again at its front
  std::uint64_t replicas = 1;
  std::uint64_t first_rank = 0;  // the ranks that read here, which advance side by side
  std::uint64_t rank_count = 1;
  std::uint64_t group = 1;
  std::uint64_t most_per_rank = UINT64_MAX;  // a sampler that stops early

  [[nodiscard]] std::uint64_t length() const;
  // The position in the padded list of the i-th read.
  [[nodiscard]] std::uint64_t position(std::uint64_t i) const;
};

struct ShardedOrderParts {
  std::uint64_t list_length = 0;
  DrawList draw = nullptr;
  Shards shards = {};
  WorkerLayout workers = {};  // of one rank
};

[[nodiscard]] std::unique_ptr<Order> make_sharded_order(std::string spec, ShardedOrderParts parts);

// Parameters that families share.
inline constexpr std::uint64_t kMaxReplicas = 65'536;  // ranks of the largest jobs, with room
inline constexpr std::uint64_t kMaxBatch = 1 << 24;
inline constexpr std::uint64_t kMaxWorkers = 4096;
// batch, workers, prefetch_factor
[[nodiscard]] WorkerLayout read_worker_layout(Parameters& parameters);
// What an order tells of its readers: a step of the job takes one batch for each of the ranks that read here.
[[nodiscard]] WorkerLayout layout_of(WorkerLayout one_rank, const Shards& shards);
// replicas, rank (one, or FIRST-LAST; without it all of them read here); the caller sets total
[[nodiscard]] Shards read_shards(Parameters& parameters);

[[nodiscard]] constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
[[nodiscard]] Samples first_indices(std::uint64_t count);

}  // namespace headrace::cache
