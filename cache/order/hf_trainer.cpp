// SPDX-License-Identifier: Apache-2.0
// hf-trainer: Hugging Face Trainer and accelerate with use_seedable_sampler (its default), accelerate/data_loader.py.
// The permutation is seeded with seed + epoch; ranks take whole batches in turn (BatchSamplerShard).
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/torch_parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {
namespace {

// even_batches (the default) fills the last round of batches from the front of the epoch.
[[nodiscard]] std::uint64_t total_positions(std::uint64_t n, std::uint64_t round, bool drop_last, bool even_batches) {
  if (drop_last) return n / round * round;
  return even_batches ? ceil_div(n, round) * round : n;
}

}  // namespace

OrderResult make_hf_trainer(Parameters& parameters, const OrderInput& input) {
  const std::uint64_t n = input.sample_count;
  const Seed seed = parameters.seed("seed", 42);  // data_seed, else seed
  Shards shards = read_shards(parameters);
  const bool drop_last = parameters.flag("drop_last", false);
  const bool even_batches = parameters.flag("even_batches", true);
  const TorchVersion version = read_torch_version(parameters);
  const WorkerLayout workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());

  shards.group = workers.batch;
  shards.total = total_positions(n, shards.replicas * shards.group, drop_last, even_batches && shards.replicas > 1);
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    Mt19937 generator(static_cast<std::uint32_t>(seed.low64() + epoch));
    return torch_randperm(generator, n, count, version);
  };
  return make_sharded_order(parameters.spec(), {.list_length = n, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
