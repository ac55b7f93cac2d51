// SPDX-License-Identifier: Apache-2.0
// numpy's default_rng: SeedSequence and PCG64 (numpy/random/bit_generator.pyx, src/pcg64/pcg64.h; XSL-RR 128/64).
//
//   Pcg64 engine(Seed(42));   // np.random.default_rng(42)
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>

#include "headrace/cache/order/parameters.h"

namespace headrace::cache {

class Pcg64 {
 public:
  explicit Pcg64(const Seed& seed);  // not negative

  [[nodiscard]] std::uint64_t next64();
  // Halves of a 64-bit output: the low one first, then the high one that was kept.
  [[nodiscard]] std::uint32_t next32();

 private:
  unsigned __int128 state_;
  unsigned __int128 increment_;
  std::optional<std::uint32_t> high_half_;
};

}  // namespace headrace::cache
