// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/seed_scan.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "headrace/cache/order/torch_randperm.h"

namespace seed_scan_test {

using namespace headrace::cache;

namespace {

// The elements that a plan looks at, drawn the long way.
std::vector<SampleIndex> elements(std::uint32_t seed, const SeedScanPlan& plan) {
  Mt19937 generator(seed);
  generator.discard(plan.skipped_outputs + plan.first_position);
  std::vector<SampleIndex> found;
  for (std::uint32_t e = 0; e < SeedScan::kElements; ++e) {
    const std::uint64_t position = plan.first_position + e;
    found.push_back(static_cast<SampleIndex>(position + generator.next32() % (plan.n - position)));
  }
  return found;
}

}  // namespace

TEST_CASE("seed scan: survivors are exactly the seeds whose first elements were opened, for every size and plan") {
  std::mt19937 random(7);
  for (const std::uint64_t n : {4ULL, 100ULL, 4000ULL, 32'768ULL, 1'281'167ULL, 214'748'363ULL}) {
    for (const SeedScanPlan plan : {SeedScanPlan{.n = n}, SeedScanPlan{n, 8, 2}, SeedScanPlan{n, 120, 0}}) {
      if (!SeedScan::possible(plan)) continue;
      const auto first = static_cast<std::uint32_t>(random());
      constexpr std::uint64_t kCount = 5001;  // not a multiple of any block
      std::vector<SampleIndex> opened = elements(first + 4999, plan);
      for (int i = 0; i < 40; ++i) opened.push_back(static_cast<SampleIndex>(random() % n));
      std::vector<bool> table(1 << 15);
      for (const SampleIndex sample : opened) table[sample % table.size()] = true;
      std::vector<std::uint32_t> expected;
      for (std::uint32_t seed = first; seed != first + kCount; ++seed) {
        if (std::ranges::all_of(elements(seed, plan), [&](SampleIndex s) { return table[s % table.size()]; })) {
          expected.push_back(seed);
        }
      }
      const SeedScan scan(opened, plan);
      std::vector<std::uint32_t> found;
      scan.run(first, kCount, found);
      CAPTURE(n);
      CHECK(found == expected);
      found.clear();
      scan.run_baseline(first, kCount, found);
      CHECK(found == expected);
      CHECK(std::ranges::count(found, first + 4999) == 1);
      std::vector<std::uint32_t> backwards;
      for (std::uint32_t seed = first + kCount; seed != first; --seed) backwards.push_back(seed - 1);
      found.clear();
      scan.run(backwards, found);
      std::ranges::reverse(found);
      CHECK(found == expected);
    }
  }
}

}  // namespace seed_scan_test
