// SPDX-License-Identifier: Apache-2.0
// The shuffles that libraries other than torch use. All run over the whole list: none has a short form, because the
// first position is decided last (numpy, CPython) or by every draw (std::shuffle).
//
//   Samples order = first_indices(n);
//   numpy_shuffle(engine, order);
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "headrace/cache/order/mt19937.h"
#include "headrace/cache/order/sharded_order.h"

namespace headrace::cache {

// The position that numpy's shuffle swaps with position i: masked rejection
// (numpy/random/src/distributions/distributions.c, random_interval). Lists are shorter than 2^32.
template <typename Engine>
[[nodiscard]] std::uint32_t numpy_below_or_at(Engine& engine, std::uint32_t i) {
  const std::uint32_t mask = UINT32_MAX >> std::countl_zero(i);
  std::uint32_t j = engine.next32() & mask;
  while (j > i) j = engine.next32() & mask;
  return j;
}

// numpy's shuffle and permutation: RandomState with Mt19937, Generator with Pcg64.
template <typename Engine>
void numpy_shuffle(Engine& engine, Samples& list) {
  for (std::size_t i = list.size(); i-- > 1;) {
    std::swap(list[i], list[numpy_below_or_at(engine, static_cast<std::uint32_t>(i))]);
  }
}

// CPython's Random._randbelow(n) for 0 < n < 2^32 (Lib/random.py).
[[nodiscard]] std::uint32_t python_below(Mt19937& engine, std::uint32_t n);
// random.shuffle and random.sample(range(n), k)
void python_shuffle(Mt19937& engine, std::span<SampleIndex> list);
[[nodiscard]] Samples python_sample(Mt19937& engine, std::uint64_t n, std::uint64_t k);

// std::shuffle with std::mt19937 as libstdc++ has it (bits/stl_algo.h, bits/uniform_int_dist.h).
enum class LibstdcxxRule : std::uint8_t {
  kFrom11,     // multiply and shift, Lemire's rejection
  kThrough10,  // divide
};
void std_shuffle(Mt19937& engine, Samples& list, LibstdcxxRule rule);

}  // namespace headrace::cache
