// SPDX-License-Identifier: Apache-2.0
// Orders made by shuffling a list for every epoch with numpy or CPython. They differ in what an epoch starts from: the
// generator of the epoch before or a new seed, the list as listed or as the epoch before left it.
//
//   const Reshuffling run{.n = n, .epoch_seed = EpochSeed::kSeedPlusEpoch};
//   return whole_list_order(parameters, n, [=](std::uint64_t epoch) { return run.order(epoch, make_engine, shuffle);
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/shuffles.h"

namespace headrace::cache {

enum class EpochSeed : std::uint8_t {
  kStream,         // one generator, seeded once
  kSeedPlusEpoch,  // seeded anew with seed + epoch
  kSame,           // seeded anew with the same seed
};
[[nodiscard]] EpochSeed read_epoch_seed(Parameters& parameters);

// Refuses epochs that follow from so many shuffles of n elements that getting there would take minutes.
[[nodiscard]] Status check_reshuffles(std::uint64_t epoch, std::uint64_t n);

struct Reshuffling {
  std::uint64_t n = 0;
  EpochSeed epoch_seed = EpochSeed::kStream;
  bool cumulative = false;  // shuffles the list as the epoch before left it
  std::uint64_t first_epoch = 0;

  // make_engine(epoch) gives a seeded engine, shuffle(engine, list) shuffles.
  template <typename MakeEngine, typename Shuffle>
  [[nodiscard]] Result<Samples> order(std::uint64_t epoch, const MakeEngine& make_engine,
                                      const Shuffle& shuffle) const {
    const bool carried_over = cumulative || epoch_seed == EpochSeed::kStream;
    HEADRACE_TRY_DO(check_reshuffles(carried_over ? epoch : 0, n));
    Samples list = first_indices(n);
    auto engine = make_engine(std::uint64_t{0});
    for (std::uint64_t e = carried_over ? 0 : epoch; e <= epoch; ++e) {
      if (epoch_seed == EpochSeed::kSeedPlusEpoch) engine = make_engine(first_epoch + e);
      if (epoch_seed == EpochSeed::kSame) engine = make_engine(std::uint64_t{0});
      if (!cumulative) std::iota(list.begin(), list.end(), SampleIndex{0});
      shuffle(engine, list);
    }
    return list;
  }
};

// Reads the worker layout, finishes the parameters and makes the order whose epochs are `list_of`, of `length` each.
[[nodiscard]] OrderResult whole_list_order(Parameters& parameters, std::uint64_t length,
                                           std::function<Result<Samples>(std::uint64_t epoch)> list_of);

constexpr auto kNumpyShuffle = [](auto& engine, Samples& list) { numpy_shuffle(engine, list); };

}  // namespace headrace::cache
