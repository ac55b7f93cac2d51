// SPDX-License-Identifier: Apache-2.0
// What the simulator predicts is what the live store does, for the same reads.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/internal/chunk.h"
#include "headrace/cache/order.h"
#include "headrace/cache/simulator.h"
#include "headrace/cache/store.h"

#include "support/temp_dir.h"

namespace {

using headrace::cache::footprint_bytes;
using headrace::cache::make_order;
using headrace::cache::PolicyKind;
using headrace::cache::SampleIndex;
using headrace::cache::simulate;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::Trace;
using headrace::cache::trace_of;
using headrace::test::as_text;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::uint64_t kMiB = 1 << 20;

struct Fixture {
  Fixture(std::size_t files, std::size_t bytes) : sizes(files, static_cast<std::uint32_t>(footprint_bytes(bytes))) {
    for (std::size_t i = 0; i < files; ++i) {
      source.write("class/" + std::to_string(i) + ".jpg", as_text(pattern_bytes(bytes, i)));
    }
    options.source = source.path();
  }

  // Replays the trace; the fraction of the reads after the first epoch that did not reach the source.
  double live_hit_ratio(const Trace& trace) const {
    auto opened = Store::open(options);
    REQUIRE(opened.has_value());
    Store& store = **opened;
    std::uint64_t source_before = 0;
    for (std::size_t i = 0; i < trace.reads.size(); ++i) {
      if (i == trace.epoch_ends[0]) {
        REQUIRE(store.flush().has_value());
        source_before = store.stats().tiers.back().hits;
      }
      REQUIRE(store.read(store.catalog().sample_entry(trace.reads[i])).has_value());
    }
    const double misses = static_cast<double>(store.stats().tiers.back().hits - source_before);
    return 1.0 - misses / static_cast<double>(trace.reads.size() - trace.epoch_ends[0]);
  }

  TempDir source;
  TempDir scratch;
  StoreOptions options;
  std::vector<std::uint32_t> sizes;
};

TEST_CASE("a disk tier of half the data set hits what never-evict is predicted to, and writes nothing more") {
  Fixture fixture(512, 16'000);  // a record is 16 KiB: 64 to a segment of 1 MiB
  fixture.options.tiers = {{.kind = TierKind::kSsd, .path = fixture.scratch.path() / "tier", .budget_bytes = 4 * kMiB}};
  const auto order = make_order("torch-distributed:seed=1", {.sample_count = 512, .find_sample = {}});
  REQUIRE(order.has_value());
  const auto trace = trace_of(**order, {.epochs = 3});
  REQUIRE(trace.has_value());
  const double predicted =
      simulate(*trace, fixture.sizes, {.tiers = {{PolicyKind::kNeverEvict, 4 * kMiB}}}).hit_ratio();
  CHECK(predicted == doctest::Approx(0.5));
  CHECK(fixture.live_hit_ratio(*trace) == doctest::Approx(predicted));
}

TEST_CASE("the RAM tier without an order hits what S3-FIFO is predicted to") {
  constexpr std::size_t kFiles = 600;
  Fixture fixture(kFiles, 8'000);
  fixture.options.ram_bytes = kFiles / 3 * footprint_bytes(8'000);
  Trace trace;
  std::mt19937_64 random(3);
  for (int i = 0; i < 9'000; ++i) {
    const double place = std::pow(std::generate_canonical<double, 32>(random), 3.0);  // a third of the files, mostly
    trace.reads.push_back(static_cast<SampleIndex>(place * kFiles));
  }
  trace.epoch_ends = {3'000, 6'000, 9'000};
  const double predicted =
      simulate(trace, fixture.sizes, {.tiers = {{PolicyKind::kS3Fifo, fixture.options.ram_bytes}}}).hit_ratio();
  CHECK(predicted > 0.6);
  CHECK(fixture.live_hit_ratio(trace) == doctest::Approx(predicted).epsilon(0.04));  // 16 small caches, not one
}

}  // namespace
