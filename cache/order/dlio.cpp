// SPDX-License-Identifier: Apache-2.0
// dlio: DLIO and MLPerf Storage (dlio_benchmark/utils/config.py, reconfigure), shuffling of files.
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/reshuffling.h"

namespace headrace::cache {
OrderResult make_dlio(Parameters& parameters, const OrderInput& input) {
  const Seed seed = parameters.seed("seed", 123);
  const bool change = parameters.flag("seed_change_epoch", true);
  Reshuffling run{.n = input.sample_count};
  run.epoch_seed = change ? EpochSeed::kSeedPlusEpoch : EpochSeed::kSame;
  run.cumulative = true;                                   // file_list_train is shuffled in place
  run.first_epoch = parameters.integer("first_epoch", 1);  // DLIO counts epochs from 1
  return whole_list_order(parameters, run.n, [=](std::uint64_t epoch) {
    return run.order(
        epoch, [&](std::uint64_t e) { return Mt19937(seed.plus(e).low32()); }, kNumpyShuffle);
  });
}

}  // namespace headrace::cache
