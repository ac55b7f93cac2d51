// SPDX-License-Identifier: Apache-2.0
// detectron2: TrainingSampler (detectron2/data/samplers/distributed_sampler.py).
// mmengine: DefaultSampler and InfiniteSampler (mmengine/dataset/sampler.py).
//
// The infinite samplers draw one permutation after the other from one generator and deal the endless stream to the
// ranks. Epoch e is the part of the stream in the e-th permutation, so that epochs in a row are the stream.
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/torch_parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {
namespace {

struct InfiniteParts {
  std::uint64_t n = 0;
  std::uint32_t seed = 0;
  bool shuffle = true;
  Shards shards;
  TorchVersion version;
  WorkerLayout workers;
};

class InfiniteOrder final : public Order {
 public:
  InfiniteOrder(std::string spec, InfiniteParts parts) : spec_(std::move(spec)), parts_(parts) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override {
    const Shards& shards = parts_.shards;
    std::uint64_t count = parts_.n / shards.replicas * shards.rank_count;
    for (std::uint64_t i = parts_.n - parts_.n % shards.replicas; i < parts_.n; ++i) count += is_ours(epoch, i) ? 1 : 0;
    return count;
  }
  [[nodiscard]] Result<Samples> epoch(std::uint64_t epoch) const override { return prefix(epoch, length(epoch)); }
  [[nodiscard]] Result<Samples> prefix(std::uint64_t epoch, std::uint64_t count) const override {
    count = std::min(count, length(epoch));
    // At most this far: in every round of `replicas` positions all ranks have their turn.
    const std::uint64_t rounds = ceil_div(count, parts_.shards.rank_count) + 1;
    Result<Samples> permutation = permutation_prefix(epoch, std::min(rounds * parts_.shards.replicas, parts_.n));
    if (!permutation) return permutation;
    std::uint64_t taken = 0;
    for (std::uint64_t i = 0; taken < count; ++i) {
      if (is_ours(epoch, i)) (*permutation)[taken++] = (*permutation)[i];
    }
    permutation->resize(count);
    return permutation;
  }
  [[nodiscard]] WorkerLayout workers() const override {
    WorkerLayout layout = layout_of(parts_.workers, parts_.shards);
    if (parts_.n % parts_.shards.replicas != 0) layout.ranks = 1;  // which rank is first changes from epoch to epoch
    return layout;
  }

 private:
  // Position i of the epoch's permutation is position epoch * n + i of the stream.
  [[nodiscard]] bool is_ours(std::uint64_t epoch, std::uint64_t i) const {
    const Shards& shards = parts_.shards;
    const std::uint64_t before = (epoch % shards.replicas) * (parts_.n % shards.replicas);
    const std::uint64_t rank = (before + i) % shards.replicas;
    return rank >= shards.first_rank && rank < shards.first_rank + shards.rank_count;
  }
  [[nodiscard]] Result<Samples> permutation_prefix(std::uint64_t epoch, std::uint64_t count) const {
    if (!parts_.shuffle) return first_indices(count);
    Mt19937 generator(parts_.seed);
    HEADRACE_TRY_DO(skip(generator, epoch, randperm_outputs(parts_.n, parts_.version), 0));
    return torch_randperm(generator, parts_.n, count, parts_.version);
  }

  const std::string spec_;
  const InfiniteParts parts_;
};

[[nodiscard]] OrderResult make_infinite(Parameters& parameters, const OrderInput& input, const Seed& seed) {
  InfiniteParts parts{.n = input.sample_count, .seed = seed.low32(), .shards = {}, .version = {}, .workers = {}};
  parts.shuffle = parameters.flag("shuffle", true);
  parts.shards = read_shards(parameters);
  parts.version = read_torch_version(parameters);
  parts.workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());
  return std::make_unique<InfiniteOrder>(parameters.spec(), parts);
}

}  // namespace

OrderResult make_detectron2(Parameters& parameters, const OrderInput& input) {
  return make_infinite(parameters, input, parameters.seed("seed", *Seed::parse("-1")));  // cfg.SEED's default
}

OrderResult make_mmengine(Parameters& parameters, const OrderInput& input) {
  const Seed seed = parameters.seed("seed", 0);  // randomness.seed, else 31 random bits shared by the ranks
  if (parameters.choice("sampler", {"default", "infinite"}) == 1) return make_infinite(parameters, input, seed);
  const std::uint64_t n = input.sample_count;
  const bool shuffle = parameters.flag("shuffle", true);
  const bool round_up = parameters.flag("round_up", true);
  Shards shards = read_shards(parameters);
  const TorchVersion version = read_torch_version(parameters);
  const WorkerLayout workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());
  shards.total = round_up ? ceil_div(n, shards.replicas) * shards.replicas : n;
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    if (!shuffle) return first_indices(count);
    Mt19937 generator(static_cast<std::uint32_t>(seed.low64() + epoch));
    return torch_randperm(generator, n, count, version);
  };
  return make_sharded_order(parameters.spec(), {.list_length = n, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
