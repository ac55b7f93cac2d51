// SPDX-License-Identifier: Apache-2.0
// python: random.shuffle and random.sample of CPython (Lib/random.py).
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/reshuffling.h"

namespace headrace::cache {
OrderResult make_python(Parameters& parameters, const OrderInput& input) {
  const std::uint64_t n = input.sample_count;
  if (n > UINT32_MAX) parameters.fail("at most 2^32 - 1 samples");
  const Seed seed = parameters.seed("seed", 0);
  Reshuffling run{.n = n};
  run.epoch_seed = read_epoch_seed(parameters);
  run.cumulative = parameters.flag("cumulative", false);
  const std::uint64_t picked = parameters.integer("sample", n, {.least = 0, .most = n});  // random.sample of so many
  const bool sampled = picked != n || parameters.text("sample").has_value();
  const auto shuffle = [=](Mt19937& engine, Samples& list) {
    if (sampled) {
      list = python_sample(engine, n, picked);
    } else {
      python_shuffle(engine, list);
    }
  };
  return whole_list_order(parameters, picked, [=](std::uint64_t epoch) {
    return run.order(
        epoch, [&](std::uint64_t e) { return Mt19937::by_array(seed.plus(e).words()); }, shuffle);
  });
}

}  // namespace headrace::cache
