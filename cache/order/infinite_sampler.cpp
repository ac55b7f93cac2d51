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
    const std::uint64_t first = first_position(epoch);
    return first >= parts_.n ? 0 : ceil_div(parts_.n - first, step());
  }
  [[nodiscard]] Result<Samples> epoch(std::uint64_t epoch) const override { return prefix(epoch, length(epoch)); }
  [[nodiscard]] Result<Samples> prefix(std::uint64_t epoch, std::uint64_t count) const override {
    count = std::min(count, length(epoch));
    if (count == 0) return Samples{};
    const std::uint64_t first = first_position(epoch);
    Result<Samples> permutation = permutation_prefix(epoch, first + (count - 1) * step() + 1);
    if (!permutation || step() == 1) return permutation;
    for (std::uint64_t i = 0; i < count; ++i) (*permutation)[i] = (*permutation)[first + i * step()];
    permutation->resize(count);
    return permutation;
  }
  [[nodiscard]] WorkerLayout workers() const override { return parts_.workers; }

 private:
  [[nodiscard]] std::uint64_t step() const { return parts_.shards.rank ? parts_.shards.replicas : 1; }
  // The rank's first position inside the epoch's permutation: the stream position is rank modulo replicas.
  [[nodiscard]] std::uint64_t first_position(std::uint64_t epoch) const {
    if (!parts_.shards.rank) return 0;
    const std::uint64_t before = (epoch % step()) * (parts_.n % step()) % step();  // epoch * n modulo replicas
    return (*parts_.shards.rank + step() - before) % step();
  }
  [[nodiscard]] Result<Samples> permutation_prefix(std::uint64_t epoch, std::uint64_t count) const {
    if (!parts_.shuffle) return first_indices(count);
    Mt19937 generator(parts_.seed);
    if (Status good = skip(generator, epoch, randperm_outputs(parts_.n, parts_.version), 0); !good) {
      return io::forward_error(std::move(good));
    }
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
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
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
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
  shards.total = round_up ? ceil_div(n, shards.replicas) * shards.replicas : n;
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    if (!shuffle) return first_indices(count);
    Mt19937 generator(static_cast<std::uint32_t>(seed.low64() + epoch));
    return torch_randperm(generator, n, count, version);
  };
  return make_sharded_order(parameters.spec(), {.list_length = n, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
