// SPDX-License-Identifier: Apache-2.0
// Goes through torch's seeds at tens of millions per second and core, keeping those whose permutation begins with
// samples that were opened.
//
//   const SeedScan scan(opens.samples(), {.n = n});
//   scan.run(0, 1 << 20, survivors);       // one in some thousands survives, the true seed among them
//
// Thread-safety: immutable; run() from many threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

// Which elements of the permutation must all have been opened: kElements from `first_position` on. The generator gave
// `skipped_outputs` before the permutation began.
struct SeedScanPlan {
  std::uint64_t n = 0;  // below 214748364: from there torch draws otherwise
  std::uint32_t first_position = 0;
  std::uint32_t skipped_outputs = 0;
};

class SeedScan {
 public:
  static constexpr std::uint32_t kElements = 3;
  // A plan is possible where its elements exist and their outputs come from the generator's first twist.
  [[nodiscard]] static bool possible(const SeedScanPlan& plan);

  SeedScan(std::span<const SampleIndex> opened, SeedScanPlan plan);

  // Appends the survivors among the `count` seeds from `first` on, in ascending order.
  void run(std::uint32_t first, std::uint64_t count, std::vector<std::uint32_t>& survivors) const;

  // The same among these seeds, in their sequence.
  void run(std::span<const std::uint32_t> seeds, std::vector<std::uint32_t>& survivors) const;

  // The instruction set that run() uses on this machine: "avx512", "avx2" or "baseline".
  [[nodiscard]] static std::string_view instruction_set();
  // For tests: the same with the plain code for every machine.
  void run_baseline(std::uint32_t first, std::uint64_t count, std::vector<std::uint32_t>& survivors) const;

 private:
  struct Kernels;

  struct Divisor {
    std::uint32_t value = 1;
    std::uint32_t reciprocal = 0;  // floor(2^32 / value), capped: the quotient is off by one at most
  };

  // Small enough to stay in the first-level cache beside the generator's words. Indexed by the low bits of a sample:
  // exact for n up to its size, else with false hits that the further elements and the full check sort out.
  static constexpr std::uint32_t kTableSize = 1 << 15;

  SeedScanPlan plan_;
  std::uint32_t first_output_;
  std::array<Divisor, kElements> divisors_;
  std::vector<std::uint8_t> opened_;
};

}  // namespace headrace::cache
