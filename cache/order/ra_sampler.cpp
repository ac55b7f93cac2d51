// SPDX-License-Identifier: Apache-2.0
// ra-sampler: repeated augmentation. RASampler of DeiT (samplers.py) and of torchvision's references
// (references/classification/sampler.py), RepeatAugSampler of timm (timm/data/distributed_sampler.py).
//
// Each element of a permutation is repeated, the list padded from its front and dealt to the ranks, which stop after
// n / 256 * 256 / replicas samples: an epoch reads about the first n / repeats elements only.
#include <cmath>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/torch_parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {
namespace {

// List element i is permutation element i // repeats, Python's floor division: exact, where a quotient of doubles may
// round up to the next whole number.
[[nodiscard]] std::uint64_t source_of(std::uint64_t i, double repeats) {
  const auto dividend = static_cast<double>(i);
  return static_cast<std::uint64_t>(std::llround((dividend - std::fmod(dividend, repeats)) / repeats));
}

[[nodiscard]] std::uint64_t selected_per_rank(std::uint64_t n, std::uint64_t round, double ratio) {
  if (round == 0) return static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) / ratio));
  const std::uint64_t rounded = n - n % round;
  return static_cast<std::uint64_t>(std::floor(static_cast<double>(rounded) / ratio));
}

}  // namespace

OrderResult make_ra_sampler(Parameters& parameters, const OrderInput& input) {
  const std::uint64_t n = input.sample_count;
  const bool timm = parameters.choice("variant", {"torchvision", "deit", "timm"}) == 2;
  const Seed seed = parameters.seed("seed", 0);  // DeiT and timm have none: the epoch alone counts
  const double repeats = parameters.number(timm ? "num_repeats" : "repeats", 3.0, 1.0, 1024.0);
  Shards shards = read_shards(parameters);
  const auto replicas = static_cast<double>(shards.replicas);
  const std::uint64_t round = timm ? parameters.integer("selected_round", 256) : 256;
  const double ratio = timm ? parameters.number("selected_ratio", replicas, 1.0, 65'536.0) : replicas;
  const TorchVersion version = read_torch_version(parameters);
  const WorkerLayout workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());

  const double repeated = std::ceil(static_cast<double>(n) * repeats);
  const auto list_length = static_cast<std::uint64_t>(repeated);
  shards.total = static_cast<std::uint64_t>(std::ceil(static_cast<double>(n) * repeats / replicas)) * shards.replicas;
  shards.most_per_rank = selected_per_rank(n, round, ratio);
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    Mt19937 generator(static_cast<std::uint32_t>(seed.low64() + epoch));
    const Samples permutation =
        torch_randperm(generator, n, count == 0 ? 0 : source_of(count - 1, repeats) + 1, version);
    Samples list(count);
    for (std::uint64_t i = 0; i < count; ++i) list[i] = permutation[source_of(i, repeats)];
    return list;
  };
  return make_sharded_order(parameters.spec(),
                            {.list_length = list_length, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
