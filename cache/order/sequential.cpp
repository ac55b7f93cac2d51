// SPDX-License-Identifier: Apache-2.0
// sequential: samples in the order of the listing, as every loader without shuffling reads them.
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"

namespace headrace::cache {

OrderResult make_sequential(Parameters& parameters, const OrderInput& input) {
  Shards shards = read_shards(parameters);
  shards.total = input.sample_count;
  const WorkerLayout workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());
  const auto draw = [](std::uint64_t /*epoch*/, std::uint64_t count) -> Result<Samples> {
    return first_indices(count);
  };
  return make_sharded_order(parameters.spec(),
                            {.list_length = input.sample_count, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
