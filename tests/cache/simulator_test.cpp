// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/simulator.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/read_ahead.h"
#include "headrace/cache/sample_sizes.h"

namespace simulator_test {

using namespace headrace::cache;

namespace {

constexpr std::uint32_t kSize = 100;

std::unique_ptr<Order> order_of(const std::string& spec, std::uint64_t samples) {
  Result<std::unique_ptr<Order>> order = make_order(spec, {.sample_count = samples});
  REQUIRE(order);
  return std::move(*order);
}

Trace shuffled(std::uint32_t samples, std::uint64_t epochs, const std::string& more = "") {
  return *trace_of(*order_of("torch-distributed:seed=0" + more, samples), {.epochs = epochs});
}

std::vector<std::uint32_t> equal_sizes(std::size_t count) {
  return std::vector<std::uint32_t>(count, kSize);
}

SimulationResult run(const Trace& trace, std::uint32_t samples, PolicyKind policy, double cached) {
  const auto capacity = static_cast<std::uint64_t>(cached * samples) * kSize;
  return simulate(trace, equal_sizes(samples), {.tiers = {{policy, capacity}}, .warmup_epochs = 2});
}

// Hits of a policy over a trace that is easy to follow by hand.
std::string hits_of(PolicyKind kind, std::uint64_t capacity, const std::string& reads) {
  const std::vector<std::uint32_t> sizes(26, 1);
  const std::unique_ptr<Policy> policy = make_policy(kind, {.capacity_bytes = capacity, .sizes = sizes});
  std::string hits;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const std::size_t next = reads.find(reads[i], i + 1);
    const std::uint64_t next_use = next == std::string::npos ? kNeverUsed : next;
    const bool hit = policy->read({.sample = static_cast<SampleIndex>(reads[i] - 'a'), .next_use = next_use, .now = i});
    hits += hit ? '+' : '-';
    CHECK(policy->used_bytes() <= capacity);
  }
  return hits;
}

// The fewest misses that any policy can have, tried out: what to evict, or to bypass, at every miss.
std::size_t fewest_misses(const std::string& reads, std::size_t at, std::set<char> held, std::size_t capacity) {
  while (at < reads.size() && held.count(reads[at]) != 0) ++at;
  if (at == reads.size()) return 0;
  std::size_t best = fewest_misses(reads, at + 1, held, capacity);
  if (held.size() < capacity) {
    held.insert(reads[at]);
    return 1 + std::min(best, fewest_misses(reads, at + 1, held, capacity));
  }
  for (const char victim : held) {
    std::set<char> next = held;
    next.erase(victim);
    next.insert(reads[at]);
    best = std::min(best, fewest_misses(reads, at + 1, next, capacity));
  }
  return 1 + best;
}

}  // namespace

TEST_CASE("policies hit and evict as their papers say") {
  CHECK(hits_of(PolicyKind::kLru, 2, "abacab") == "--+-+-");
  CHECK(hits_of(PolicyKind::kNeverEvict, 2, "abcabc") == "---++-");
  CHECK(hits_of(PolicyKind::kMin, 2, "abcabc") == "---++-");
  CHECK(hits_of(PolicyKind::kMin, 1, "abba") == "--+-");
  // A scan goes through the small queue; a, read twice while there, is kept in main.
  CHECK(hits_of(PolicyKind::kS3Fifo, 10, "aaabcdefghijklmnopqrsa").back() == '+');
  CHECK(hits_of(PolicyKind::kLru, 10, "aaabcdefghijklmnopqrsa").back() == '-');
}

TEST_CASE("MIN has the fewest misses that any choice could have") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string reads;
    for (int i = 0; i < 12; ++i) reads += static_cast<char>('a' + random() % 5);
    CAPTURE(reads);
    const std::string hits = hits_of(PolicyKind::kMin, 2, reads);
    CHECK(static_cast<std::size_t>(std::count(hits.begin(), hits.end(), '-')) == fewest_misses(reads, 0, {}, 2));
  }
}

// Sizes spread like those of a photo data set.
TEST_CASE("where sizes differ MIN reads less than never-evict, and less than by next use alone") {
  constexpr std::uint32_t kSamples = 1'500;
  std::lognormal_distribution<double> distribution(11.4, 0.75);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint32_t> sizes(kSamples);
    for (std::uint32_t& size : sizes) size = static_cast<std::uint32_t>(distribution(random));
    const std::uint64_t all_bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    for (const std::string more : {"", ",replicas=4,rank=1"}) {
      const Trace trace = shuffled(kSamples, more.empty() ? 6 : 20, more);
      for (const double c : {0.1, 0.5, 0.9}) {
        CAPTURE(seed);
        CAPTURE(more);
        CAPTURE(c);
        const auto capacity = static_cast<std::uint64_t>(c * static_cast<double>(all_bytes));
        const auto result_of = [&](PolicyKind policy) {
          return simulate(trace, sizes, {.tiers = {{policy, capacity}}});
        };
        const SimulationResult min = result_of(PolicyKind::kMin);
        CHECK(min.source_reads < result_of(PolicyKind::kNeverEvict).source_reads);
        CHECK(min.source_reads >= min.minimum_source_reads);
        if (!more.empty() && c == 0.1) CHECK(min.hit_ratio() > 0.36);  // by next use alone it is 0.31
      }
    }
  }
}

TEST_CASE("every policy stays within its bytes, whatever the sizes") {
  std::mt19937_64 random(7);
  std::vector<std::uint32_t> sizes(200);
  for (std::uint32_t& size : sizes) size = static_cast<std::uint32_t>(random() % 100);
  sizes[3] = 5000;  // more than the capacity
  for (const PolicyKind kind : kAllPolicies) {
    CAPTURE(name_of(kind));
    CHECK(policy_from_name(name_of(kind)) == kind);
    const std::unique_ptr<Policy> policy = make_policy(kind, {.capacity_bytes = 1000, .sizes = sizes});
    std::uint64_t hits = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const auto sample = static_cast<SampleIndex>(std::min(random() % 200, random() % 200));
      if (policy->read({.sample = sample, .next_use = i + 1 + random() % 500, .now = i})) ++hits;
      REQUIRE(policy->used_bytes() <= 1000);
    }
    CHECK(hits > 500);
    CHECK(policy->writes() > 0);
  }
  CHECK_FALSE(policy_from_name("clock"));
}

TEST_CASE("one reader: LRU hits c + (1 - c) ln(1 - c), never-evict and MIN hit c") {
  constexpr std::uint32_t kSamples = 20'000;
  const Trace trace = shuffled(kSamples, 6);
  for (const double c : {0.1, 0.5, 0.9}) {
    CAPTURE(c);
    const double lru = c + (1 - c) * std::log(1 - c);
    CHECK(run(trace, kSamples, PolicyKind::kLru, c).hit_ratio() == doctest::Approx(lru).epsilon(0.02).scale(0.5));
    CHECK(run(trace, kSamples, PolicyKind::kNeverEvict, c).hit_ratio() == doctest::Approx(c));
    // MIN may shift work over the boundary of the epochs that are counted.
    CHECK(run(trace, kSamples, PolicyKind::kMin, c).hit_ratio() == doctest::Approx(c).epsilon(0.01));
  }
}

TEST_CASE("never-evict reads the proven minimum and writes nothing, no policy reads less") {
  constexpr std::uint32_t kSamples = 5'000;
  const Trace trace = shuffled(kSamples, 5);
  for (const PolicyKind kind : kAllPolicies) {
    CAPTURE(name_of(kind));
    const SimulationResult result = run(trace, kSamples, kind, 0.5);
    CHECK(result.epochs == 3);
    CHECK(result.reads == 3 * kSamples);
    CHECK(result.minimum_source_reads == 3 * kSamples / 2);
    if (kind == PolicyKind::kNeverEvict) {
      CHECK(result.source_reads == result.minimum_source_reads);
      CHECK(result.writes_per_read() == 0);
    } else if (kind != PolicyKind::kMin) {
      CHECK(result.source_reads > result.minimum_source_reads);
      CHECK(result.writes_per_read() > 0.3);
    }
  }
}

TEST_CASE("four private caches of a tenth: MIN hits 0.31, never-evict 0.10") {
  constexpr std::uint32_t kSamples = 20'000;
  const Trace trace = shuffled(kSamples, 40, ",replicas=4,rank=0");
  CHECK(run(trace, kSamples, PolicyKind::kMin, 0.1).hit_ratio() == doctest::Approx(0.31).epsilon(0.03));
  CHECK(run(trace, kSamples, PolicyKind::kNeverEvict, 0.1).hit_ratio() == doctest::Approx(0.10).epsilon(0.03));
}

TEST_CASE("tiers add up, and bytes are counted apart from reads") {
  const std::vector<std::uint32_t> sizes = {10, 10, 1000, 10};
  const Trace trace = *trace_of(*order_of("sequential", 4), {.epochs = 3});
  const SimulationResult result = simulate(
      trace, sizes, {.tiers = {{PolicyKind::kNeverEvict, 15}, {PolicyKind::kNeverEvict, 20}}, .warmup_epochs = 1});
  CHECK(result.tiers[0].hits == 2);
  CHECK(result.tiers[1].hits == 4);
  CHECK(result.source_reads == 2);
  CHECK(result.source_bytes == 2000);
  CHECK(result.hit_ratio() == doctest::Approx(0.75));
  CHECK(result.byte_hit_ratio() == doctest::Approx(30.0 / 1030));
  CHECK(result.minimum_source_reads == 2);
  CHECK(result.tiers[0].writes == 0);

  // Per epoch: one read of the first tier, two of the second, one of 1000 bytes of the source.
  CHECK(epoch_seconds(result, {}, {.bytes_per_second = 500}) == doctest::Approx(2));
  const std::vector<Rate> rates = {{.reads_per_second = 0.1}, {.bytes_per_second = 1}};
  CHECK(epoch_seconds(result, rates, {.bytes_per_second = 500}) == doctest::Approx(20));
}

TEST_CASE("a trace without epochs to spare is counted whole") {
  const Trace trace = *trace_of(*order_of("sequential", 10), {.epochs = 1});
  const SimulationResult result = simulate(trace, equal_sizes(10), {.tiers = {{PolicyKind::kLru, 1000}}});
  CHECK(result.epochs == 1);
  CHECK(result.source_reads == 10);
  CHECK(result.tiers[0].writes == 10);
  CHECK(simulate({}, {}, {}).hit_ratio() == 0);
}

TEST_CASE("the program's own read-ahead reaches the minimum but for its window") {
  constexpr std::uint32_t kSamples = 5'000;
  constexpr std::uint64_t kWarmup = 1;
  const std::unique_ptr<Order> order = order_of("torch-distributed:seed=0", kSamples);
  const SampleSizes sizes(equal_sizes(kSamples));
  ReadAhead plan(*order, sizes, {.budget_bytes = kSamples / 2 * kSize, .window_bytes = 50 * kSize, .in_order = true});
  double reads = 0;
  double source_reads = 0;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const auto samples = order->epoch(epoch);
    REQUIRE(samples);
    if (epoch == kWarmup) reads = source_reads = 0;
    for (const SampleIndex sample : *samples) {
      while (const std::optional<SampleIndex> next = plan.next_fetch()) {
        ++source_reads;
        plan.on_fetched(*next, true);
      }
      if (!plan.holds(sample)) ++source_reads;
      plan.on_read(sample);
      static_cast<void>(plan.take_releases());
      ++reads;
    }
  }
  CHECK(1 - source_reads / reads == doctest::Approx(0.49).epsilon(0.01));
}

}  // namespace simulator_test
