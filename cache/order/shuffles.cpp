// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/shuffles.h"

#include <unordered_set>

namespace headrace::cache {
namespace {

// Uniform in [0, bound).
[[nodiscard]] std::uint32_t std_below(Mt19937& engine, std::uint32_t bound, LibstdcxxRule rule) {
  if (rule == LibstdcxxRule::kThrough10) {
    const std::uint32_t scale = UINT32_MAX / bound;
    std::uint32_t drawn = engine.next32();
    while (drawn >= bound * scale) drawn = engine.next32();
    return drawn / scale;
  }
  std::uint64_t product = std::uint64_t{engine.next32()} * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{engine.next32()} * bound;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

// Two positions per draw, for lists so short that the product of their bounds fits the engine's range.
void std_shuffle_in_pairs(Mt19937& engine, Samples& list, LibstdcxxRule rule) {
  const auto n = static_cast<std::uint32_t>(list.size());
  std::uint32_t i = 1;
  if (n % 2 == 0) {
    std::swap(list[1], list[std_below(engine, 2, rule)]);
    i = 2;
  }
  for (; i < n; i += 2) {
    const std::uint32_t both = std_below(engine, (i + 1) * (i + 2), rule);
    std::swap(list[i], list[both / (i + 2)]);
    std::swap(list[i + 1], list[both % (i + 2)]);
  }
}

// The size from which random.sample draws single indices instead of keeping a pool.
[[nodiscard]] std::uint64_t pool_limit(std::uint64_t k) {
  std::uint64_t limit = 21;
  if (k <= 5) return limit;
  std::uint64_t power = 1;  // 4 ** ceil(log(3k, 4))
  while (power < 3 * k) power *= 4;
  return limit + power;
}

}  // namespace

std::uint32_t python_below(Mt19937& engine, std::uint32_t n) {
  const int shift = std::countl_zero(n);
  std::uint32_t drawn = engine.next32() >> shift;
  while (drawn >= n) drawn = engine.next32() >> shift;
  return drawn;
}

void python_shuffle(Mt19937& engine, std::span<SampleIndex> list) {
  for (std::size_t i = list.size(); i-- > 1;) {
    std::swap(list[i], list[python_below(engine, static_cast<std::uint32_t>(i + 1))]);
  }
}

Samples python_sample(Mt19937& engine, std::uint64_t n, std::uint64_t k) {
  Samples sample(k);
  if (n <= pool_limit(k)) {
    Samples pool = first_indices(n);
    for (std::uint64_t i = 0; i < k; ++i) {
      const std::uint32_t j = python_below(engine, static_cast<std::uint32_t>(n - i));
      sample[i] = pool[j];
      pool[j] = pool[n - i - 1];
    }
    return sample;
  }
  std::unordered_set<SampleIndex> chosen;
  for (SampleIndex& element : sample) {
    do element = python_below(engine, static_cast<std::uint32_t>(n));
    while (!chosen.insert(element).second);
  }
  return sample;
}

void std_shuffle(Mt19937& engine, Samples& list, LibstdcxxRule rule) {
  const std::uint64_t n = list.size();
  if (n < 2) return;
  if (UINT32_MAX / n >= n) return std_shuffle_in_pairs(engine, list, rule);
  for (std::uint64_t i = 1; i < n; ++i) {
    std::swap(list[i], list[std_below(engine, static_cast<std::uint32_t>(i + 1), rule)]);
  }
}

}  // namespace headrace::cache
