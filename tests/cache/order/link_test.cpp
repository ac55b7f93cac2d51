// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/link.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "headrace/cache/order/mt19937.h"
#include "headrace/cache/order_learner.h"

#include "cache/order/golden.h"
#include "cache/order/loader_replay.h"

namespace link_test {

using namespace headrace::cache;
using namespace headrace::test;

TEST_CASE("links: of streams that have a seed by chance, the one that goes on as the epochs do is followed") {
  constexpr std::uint64_t kN = 2000;
  constexpr std::uint64_t kOutputs = 1 << 18;
  // An output of manual_seed(42) that manual_seed(0), which is looked through before it, has as well.
  std::vector<std::uint32_t> of_zero(kOutputs);
  Mt19937 zero(0);
  for (std::uint32_t& output : of_zero) output = zero.next32();
  std::ranges::sort(of_zero);
  Mt19937 stream(42);
  std::uint64_t output = 0;
  while (!std::ranges::binary_search(of_zero, stream.next32())) ++output;
  REQUIRE(output > 0);
  REQUIRE(output + 100 < kOutputs);
  const std::string spec = fmt::format("torch-random:seed=42,loader=0,offset={},stride=6", output - 1);
  std::mt19937 random(12);
  OrderLearner learner({.sample_count = kN, .search_threads = 1, .search_seeds = 1 << 10, .link_outputs = kOutputs});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto list = epoch_of(spec, kN, epoch);
    for (const SampleIndex sample : replay_epoch({list}, {.batch = 32, .workers = 2}, random)) {
      learner.on_opens({&sample, 1});
      learner.wait_idle();
    }
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(*lock->order->epoch(lock->epoch) == list);
    CHECK(lock->known_epochs == (epoch == 0 ? 1 : UINT64_MAX));
  }
}

TEST_CASE("links: every place of a seed in the usual streams is a link, but the first output") {
  constexpr std::uint64_t kOutputs = 1 << 16;
  const std::atomic<bool> cancelled = false;
  const auto links_of = [&](std::uint64_t seed, std::uint64_t output) {
    Mt19937 stream(static_cast<std::uint32_t>(seed));
    stream.discard(output);
    std::vector<StreamLink> links;
    find_links(stream.next32(), kOutputs, cancelled, [&](const StreamLink& link) { links.push_back(link); });
    return links;
  };
  CHECK(links_of(98765, kOutputs - 1) == std::vector{StreamLink{.seed = 98765, .output = kOutputs - 1}});
  CHECK(links_of(1234, kOutputs).empty());  // not looked at
  CHECK(links_of(42, 0).empty());
  CHECK(links_by_chance(80'000'000) == doctest::Approx(0.67).epsilon(0.01));
}

TEST_CASE("order learner: a search through all seeds says how many it has tested of how many") {
  constexpr std::uint64_t kN = 2000;
  constexpr std::uint64_t kSeeds = 1 << 28;  // a second and more
  OrderLearner learner({.sample_count = kN, .search_threads = 1, .search_seeds = kSeeds, .link_outputs = 1 << 16});
  CHECK(learner.state().search_seeds == 0);
  std::mt19937 random(13);
  std::vector<SampleIndex> samples(kN);
  std::iota(samples.begin(), samples.end(), SampleIndex{0});
  std::ranges::shuffle(samples, random);
  learner.on_opens(std::span(samples).first(256));
  OrderLearner::State state = learner.state();
  while (state.search_seeds == 0 || state.search_seeds_tested == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = learner.state();
  }
  CHECK(state.searching_all_seeds);
  CHECK(state.search_seeds >= kSeeds);
  CHECK(state.search_seeds_tested < state.search_seeds);
}

}  // namespace link_test
