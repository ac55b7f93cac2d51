// SPDX-License-Identifier: Apache-2.0
// keras: image_dataset_from_directory (keras/src/utils/dataset_utils.py), the order of its paths.
//
// tf.data then shuffles the paths again within a buffer of 8 batches, from another generator: reads come that much out
// of this order, which the worker layout tells (1 worker, 8 batches ahead).
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/shuffles.h"

namespace headrace::cache {
OrderResult make_keras(Parameters& parameters, const OrderInput& input) {
  constexpr std::uint32_t kBufferBatches = 8;
  const std::uint64_t n = input.sample_count;
  const Seed seed = parameters.seed("seed", 0);
  const double split = parameters.number("validation_split", 0.0, 0.0, 1.0);
  const bool validation = parameters.choice("subset", {"training", "validation"}) == 1;
  const auto batch = static_cast<std::uint32_t>(parameters.integer("batch", 32, {.least = 1, .most = kMaxBatch}));
  HEADRACE_TRY_DO(parameters.finish());
  const auto held_out = static_cast<std::uint64_t>(split * static_cast<double>(n));
  const std::uint64_t first = validation ? n - held_out : 0;
  const std::uint64_t length = validation ? held_out : n - held_out;
  const auto draw = [=](std::uint64_t /*epoch*/, std::uint64_t count) -> Result<Samples> {
    Mt19937 engine(seed.low32());
    Samples list = first_indices(n);
    numpy_shuffle(engine, list);
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(first);
    return Samples(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  return make_sharded_order(parameters.spec(),
                            {.list_length = length,
                             .draw = draw,
                             .shards = {.total = length},
                             .workers = {.batch = batch, .workers = 1, .prefetch_factor = kBufferBatches}});
}

}  // namespace headrace::cache
