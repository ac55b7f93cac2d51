// SPDX-License-Identifier: Apache-2.0
// torch.randperm on the CPU, bit for bit.
//
//   Mt19937 generator(static_cast<std::uint32_t>(seed));   // manual_seed: only the low 32 bits count
//   std::vector<SampleIndex> order = torch_randperm(generator, n, n);
//
// Source: aten/src/ATen/native/TensorFactories.cpp, randperm_cpu; checked against torch 1.7, 1.13, 2.6 and 2.14.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/order/mt19937.h"

namespace headrace::cache {

// A release of torch, as far as orders depend on it.
struct TorchVersion {
  std::uint32_t major = 2;
  std::uint32_t minor = 14;
  friend auto operator<=>(const TorchVersion&, const TorchVersion&) = default;

  // From this many elements torch 2.6 and later use 64-bit draws (pytorch pull request 143875).
  static constexpr std::uint64_t kWideFrom = 214'748'364;  // (2^32 - 1) / 20

  [[nodiscard]] bool uses_wide_draws(std::uint64_t n) const {
    return n >= kWideFrom && *this >= TorchVersion{.major = 2, .minor = 6};
  }
  // RandomSampler <= 1.8 draws a seed and then shuffles with the default generator itself (pytorch issue 52568).
  [[nodiscard]] bool shuffles_with_default_generator() const { return *this < TorchVersion{.major = 1, .minor = 9}; }
  // RandomSampler >= 1.12 draws a second permutation, which it does not use, at the end of each pass.
  [[nodiscard]] bool draws_tail_permutation() const { return *this >= TorchVersion{.major = 1, .minor = 12}; }
};

// The first min(count, n) elements of randperm(n). Time and memory O(count) while n is below kWideFrom or torch older
// than 2.6, else O(n). Leaves the generator after `count` draws, not at the end of the permutation: pass count = n (or
// discard randperm_outputs) where the stream goes on.
[[nodiscard]] std::vector<SampleIndex> torch_randperm(Mt19937& generator, std::uint64_t n, std::uint64_t count,
                                                      TorchVersion version = {});

// Outputs that a whole randperm(n) takes from the generator.
[[nodiscard]] std::uint64_t randperm_outputs(std::uint64_t n, TorchVersion version = {});

}  // namespace headrace::cache
