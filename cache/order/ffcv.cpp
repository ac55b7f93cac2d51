// SPDX-License-Identifier: Apache-2.0
// ffcv: OrderOption.RANDOM (ffcv/traversal_order/random.py): numpy, or DistributedSampler where distributed.
// QUASI_RANDOM shuffles the samples of each 8 MiB page of its one file, then draws from a window of pages: it depends
// on the file's page table, and what the disk sees of it is pages of one file, not samples.
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/pcg64.h"
#include "headrace/cache/order/reshuffling.h"

namespace headrace::cache {
OrderResult make_ffcv(Parameters& parameters, const OrderInput& input) {
  if (parameters.choice("order", {"random", "quasi_random"}) == 1) {
    parameters.fail(
        "quasi_random goes by the pages of one .beton file, which the samples do not tell; "
        "write its order to a list and use file:PATH");
  }
  if (parameters.flag("distributed", false)) return make_torch_distributed(parameters, input);
  const Seed seed = parameters.seed("seed", 0);
  if (seed.negative()) parameters.fail("numpy's seeds are not negative");
  const Reshuffling run{.n = input.sample_count, .epoch_seed = EpochSeed::kSeedPlusEpoch};
  return whole_list_order(parameters, run.n, [=](std::uint64_t epoch) {
    return run.order(
        epoch, [&](std::uint64_t e) { return Pcg64(seed.plus(e)); }, kNumpyShuffle);
  });
}

}  // namespace headrace::cache
