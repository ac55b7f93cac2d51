// SPDX-License-Identifier: Apache-2.0
// numpy: np.random.permutation and shuffle, of RandomState or of the newer Generator.
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/pcg64.h"
#include "headrace/cache/order/reshuffling.h"

namespace headrace::cache {
namespace {

// RandomState(int) seeds with the number, RandomState(list) with an array.
[[nodiscard]] Mt19937 random_state(const std::vector<Seed>& seeds, std::uint64_t addend) {
  if (seeds.size() == 1) return Mt19937(seeds[0].plus(addend).low32());
  std::vector<std::uint32_t> key;
  key.reserve(seeds.size());
  for (const Seed& seed : seeds) key.push_back(seed.low32());
  key.back() += static_cast<std::uint32_t>(addend);
  return Mt19937::by_array(key);
}

void check_seeds(Parameters& parameters, const std::vector<Seed>& seeds, bool generator) {
  if (generator && seeds.size() != 1) parameters.fail("rng=generator takes one seed");
  for (const Seed& seed : seeds) {
    if (seed.negative()) parameters.fail("numpy's seeds are not negative");
    if (!generator && seed.words().size() > 1) parameters.fail("seeds of rng=randomstate are below 2^32");
  }
}

}  // namespace

OrderResult make_numpy(Parameters& parameters, const OrderInput& input) {
  const bool generator = parameters.choice("rng", {"randomstate", "generator"}) == 1;
  std::vector<Seed> seeds = parameters.seeds("seed", 0);
  check_seeds(parameters, seeds, generator);
  // RandomState([7]) is seeded with an array, RandomState(7) is not.
  const bool as_list = parameters.flag("seed_list", seeds.size() > 1);
  Reshuffling run{.n = input.sample_count};
  run.epoch_seed = read_epoch_seed(parameters);
  run.cumulative = parameters.flag("cumulative", false);  // shuffle(list) in place, over and over
  return whole_list_order(parameters, run.n, [=](std::uint64_t epoch) -> Result<Samples> {
    if (generator)
      return run.order(
          epoch, [&](std::uint64_t e) { return Pcg64(seeds[0].plus(e)); }, kNumpyShuffle);
    const auto make_engine = [&](std::uint64_t e) {
      return as_list && seeds.size() == 1 ? Mt19937::by_array(seeds[0].plus(e).words()) : random_state(seeds, e);
    };
    return run.order(epoch, make_engine, kNumpyShuffle);
  });
}

}  // namespace headrace::cache
