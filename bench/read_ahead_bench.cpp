// SPDX-License-Identifier: Apache-2.0
// What planning costs for each sample: a steady epoch in which the reader takes each sample as it was planned.
//
//   cache/read_ahead/ranks:R/lanes:L   R ranks, L workers in all; a fifth of a million samples, a tenth of which fit
//
// `planned` is a checksum of what was planned, in its order: two versions that plan alike print the same.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "headrace/cache/ahead/worker_sequence.h"
#include "headrace/cache/read_ahead.h"

namespace {

using namespace headrace::cache;

constexpr std::uint64_t kSamples = 200'000;
constexpr std::uint64_t kSampleBytes = 110'000;

class LanesOrder final : public Order {
 public:
  explicit LanesOrder(const WorkerLayout& layout)
      : layout_(layout), inner_(*make_order("torch-distributed:seed=1", {.sample_count = kSamples})) {}
  const std::string& spec() const override { return inner_->spec(); }
  std::uint64_t length(std::uint64_t epoch) const override { return inner_->length(epoch); }
  headrace::io::Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    return inner_->epoch(epoch);
  }
  WorkerLayout workers() const override { return layout_; }

 private:
  const WorkerLayout layout_;
  const std::unique_ptr<Order> inner_;
};

// What the workers open, step by step.
std::vector<SampleIndex> opened(const Order& order, std::uint64_t epoch) {
  const std::vector<SampleIndex> samples = *order.epoch(epoch);
  const WorkerSequence sequence(samples.size(), order.workers());
  std::vector<SampleIndex> opened(samples.size());
  for (std::uint64_t step = 0; step < opened.size(); ++step) opened[step] = samples[sequence.position_of(step)];
  return opened;
}

class Reading {
 public:
  explicit Reading(const Order& order)
      : order_(order),
        sizes_(std::vector<std::uint32_t>(kSamples, kSampleBytes)),
        plan_(order, sizes_, {.budget_bytes = kSamples * kSampleBytes / 10}),
        samples_(opened(order, 0)) {
    fetch();
  }
  void enter_next_epoch() {
    samples_ = opened(order_, ++epoch_);
    next_ = 0;
  }
  [[nodiscard]] bool is_through() const { return next_ == samples_.size(); }
  void read() {
    plan_.on_read(samples_[next_++]);
    fetch();
  }
  [[nodiscard]] std::uint64_t planned() const { return planned_; }

 private:
  void fetch() {
    benchmark::DoNotOptimize(plan_.take_releases());
    while (const auto sample = plan_.next_fetch()) {
      plan_.on_fetched(*sample, true);
      planned_ = planned_ * 0x9e3779b97f4a7c15U + *sample + 1;
    }
  }

  const Order& order_;
  const SampleSizes sizes_;
  ReadAhead plan_;
  std::vector<SampleIndex> samples_;
  std::uint64_t epoch_ = 0;
  std::size_t next_ = 0;
  std::uint64_t planned_ = 0;
};

void plan(benchmark::State& state, const WorkerLayout& layout) {
  const LanesOrder order(layout);
  Reading reading(order);
  for (auto _ : state) {
    if (reading.is_through()) {
      state.PauseTiming();
      reading.enter_next_epoch();
      state.ResumeTiming();
    }
    reading.read();
  }
  state.counters["planned"] = static_cast<double>(reading.planned() % 1'000'000'007);
}

}  // namespace

int main(int argc, char** argv) {
  const auto add = [](std::uint32_t ranks, std::uint32_t workers) {
    const std::string name =
        "cache/read_ahead/ranks:" + std::to_string(ranks) + "/lanes:" + std::to_string(ranks * workers);
    const WorkerLayout layout{.batch = 16 * ranks, .workers = workers, .prefetch_factor = 2, .ranks = ranks};
    benchmark::RegisterBenchmark(name.c_str(), plan, layout)->Iterations(2 * kSamples);
  };
  add(1, 1);
  add(1, 16);
  add(8, 16);
  add(16, 16);
  add(1, 256);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
