// SPDX-License-Identifier: Apache-2.0
// torch-distributed: torch.utils.data.DistributedSampler (torch/utils/data/distributed.py), same in effect 1.7 to 2.14.
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/torch_parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {

OrderResult make_torch_distributed(Parameters& parameters, const OrderInput& input) {
  const std::uint64_t n = input.sample_count;
  const Seed seed = parameters.seed("seed", 0);
  const bool shuffle = parameters.flag("shuffle", true);
  const bool set_epoch = parameters.flag("set_epoch", true);  // 0: a script that forgot it repeats one order for ever
  Shards shards = read_shards(parameters);
  const bool drop_last = parameters.flag("drop_last", false);
  const TorchVersion version = read_torch_version(parameters);
  const WorkerLayout workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());

  // With drop_last torch takes ceil((n - R) / R) each, which is n / R rounded down (0 for n < R).
  shards.total = (drop_last ? n / shards.replicas : ceil_div(n, shards.replicas)) * shards.replicas;
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    if (!shuffle) return first_indices(count);
    Mt19937 generator(static_cast<std::uint32_t>(seed.low64() + (set_epoch ? epoch : 0)));
    return torch_randperm(generator, n, count, version);
  };
  return make_sharded_order(parameters.spec(), {.list_length = n, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
