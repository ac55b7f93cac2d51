// SPDX-License-Identifier: Apache-2.0
// Rate of the search through torch's seeds on one core.
//
//   cache/seed_scan/<instruction set>/samples:4000     a set in which one in 16 samples was opened
//   cache/seed_scan/<instruction set>/samples:1281167  256 opens of ImageNet
//   cache/seed_scan/baseline/...                       the same without AVX
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "headrace/cache/learn/seed_scan.h"

namespace {

using namespace headrace::cache;

using Run = void (SeedScan::*)(std::uint32_t, std::uint64_t, std::vector<std::uint32_t>&) const;

void scan(benchmark::State& state, Run run, std::uint64_t n) {
  constexpr std::uint64_t kChunk = 1 << 18;
  std::mt19937 random(1);
  std::vector<SampleIndex> opened(std::min<std::uint64_t>(256, n / 16));
  for (SampleIndex& sample : opened) sample = static_cast<SampleIndex>(random() % n);
  const SeedScan scanner(opened, {.n = n});
  std::vector<std::uint32_t> survivors;
  std::uint32_t first = 0;
  for (auto _ : state) {
    survivors.clear();
    (scanner.*run)(first, kChunk, survivors);
    benchmark::DoNotOptimize(survivors.data());
    first += kChunk;
  }
  state.counters["seeds/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kChunk, benchmark::Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::uint64_t n : {std::uint64_t{4000}, std::uint64_t{1'281'167}}) {
    const std::string samples = "/samples:" + std::to_string(n);
    const std::string name = "cache/seed_scan/" + std::string(SeedScan::instruction_set()) + samples;
    benchmark::RegisterBenchmark(name.c_str(), scan, static_cast<Run>(&SeedScan::run), n);
    benchmark::RegisterBenchmark(("cache/seed_scan/baseline" + samples).c_str(), scan, &SeedScan::run_baseline, n);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
