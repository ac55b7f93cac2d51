// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/sharded_order.h"

#include <algorithm>
#include <numeric>

namespace headrace::cache {
namespace {

class ShardedOrder final : public Order {
 public:
  ShardedOrder(std::string spec, ShardedOrderParts parts) : spec_(std::move(spec)), parts_(std::move(parts)) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t /*epoch*/) const override {
    return parts_.list_length == 0 ? 0 : parts_.shards.length();
  }
  [[nodiscard]] Result<Samples> epoch(std::uint64_t epoch) const override { return prefix(epoch, length(epoch)); }
  [[nodiscard]] Result<Samples> prefix(std::uint64_t epoch, std::uint64_t count) const override;
  [[nodiscard]] WorkerLayout workers() const override { return layout_of(parts_.workers, parts_.shards); }

 private:
  const std::string spec_;
  const ShardedOrderParts parts_;
};

Result<Samples> ShardedOrder::prefix(std::uint64_t epoch, std::uint64_t count) const {
  const Shards& shards = parts_.shards;
  const std::uint64_t list_length = parts_.list_length;
  count = std::min(count, length(epoch));
  if (count == 0) return Samples{};
  // position() grows with i, so the last one tells how much of the list is needed.
  Result<Samples> list = parts_.draw(epoch, std::min(shards.position(count - 1) + 1, list_length));
  if (!list) return list;
  const bool every_position = shards.position(count - 1) + 1 == count;
  if (every_position && count <= list_length) return list;
  if (every_position) {
    for (std::uint64_t i = list->size(); i < count; ++i) list->push_back((*list)[i % list_length]);
    return list;
  }
  Samples dealt(count);
  for (std::uint64_t i = 0; i < count; ++i) dealt[i] = (*list)[shards.position(i) % list_length];
  return dealt;
}

}  // namespace

std::uint64_t Shards::length() const {
  const std::uint64_t here = rank_count * group;
  const std::uint64_t round = replicas * group;
  const std::uint64_t rest = total % round;
  const std::uint64_t before = first_rank * group;
  const std::uint64_t last = rest > before ? std::min(rest - before, here) : 0;
  const std::uint64_t dealt = total / round * here + last;
  return most_per_rank < ceil_div(dealt, rank_count) ? most_per_rank * rank_count : dealt;
}

std::uint64_t Shards::position(std::uint64_t i) const {
  const std::uint64_t block = i / group;
  return (block / rank_count * replicas + first_rank + block % rank_count) * group + i % group;
}

std::unique_ptr<Order> make_sharded_order(std::string spec, ShardedOrderParts parts) {
  return std::make_unique<ShardedOrder>(std::move(spec), std::move(parts));
}

WorkerLayout read_worker_layout(Parameters& parameters) {
  WorkerLayout layout;
  layout.batch = static_cast<std::uint32_t>(parameters.integer("batch", 1, {.least = 1, .most = kMaxBatch}));
  layout.workers = static_cast<std::uint32_t>(parameters.integer("workers", 0, {.least = 0, .most = kMaxWorkers}));
  layout.prefetch_factor =
      static_cast<std::uint32_t>(parameters.integer("prefetch_factor", 2, {.least = 1, .most = kMaxWorkers}));
  return layout;
}

Shards read_shards(Parameters& parameters) {
  Shards shards;
  shards.replicas = parameters.integer("replicas", 1, {.least = 1, .most = kMaxReplicas});
  const auto ranks = parameters.range("rank", {.least = 0, .most = shards.replicas - 1});
  shards.first_rank = ranks ? ranks->least : 0;
  shards.rank_count = ranks ? ranks->most - ranks->least + 1 : shards.replicas;
  return shards;
}

WorkerLayout layout_of(WorkerLayout one_rank, const Shards& shards) {
  const auto ranks = static_cast<std::uint32_t>(shards.rank_count);
  if (shards.group > 1) {  // whole batches to each rank in turn: as if the workers of all ranks were one rank's
    one_rank.workers =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(one_rank.workers * shards.rank_count, kMaxWorkers));
    return one_rank;
  }
  const std::uint64_t batch_max = UINT32_MAX / shards.rank_count;  // of one rank: the batch of all is a multiple of it
  one_rank.batch = static_cast<std::uint32_t>(std::min<std::uint64_t>(one_rank.batch, batch_max) * shards.rank_count);
  one_rank.ranks = ranks;
  return one_rank;
}

Samples first_indices(std::uint64_t count) {
  Samples indices(count);
  std::iota(indices.begin(), indices.end(), SampleIndex{0});
  return indices;
}

}  // namespace headrace::cache
