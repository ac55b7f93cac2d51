// SPDX-License-Identifier: Apache-2.0
// Orders that nobody can know must not be taken for known ones.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/learn/search.h"
#include "headrace/cache/order_learner.h"

using namespace headrace::cache;

namespace {

using Samples = std::vector<SampleIndex>;

Samples shuffled(std::uint64_t n, std::mt19937_64& random) {
  Samples samples(n);
  std::iota(samples.begin(), samples.end(), SampleIndex{0});
  std::ranges::shuffle(samples, random);
  return samples;
}

// Whole blocks of neighbours in shuffled order, each from its first to its last: clips, classes.
Samples shuffled_in_blocks(std::uint64_t n, std::uint64_t block, std::mt19937_64& random) {
  Samples samples;
  for (const SampleIndex which : shuffled(n / block, random)) {
    for (std::uint64_t i = 0; i < block; ++i) samples.push_back(static_cast<SampleIndex>(which * block + i));
  }
  return samples;
}

Samples with_replacement(std::uint64_t n, std::mt19937_64& random) {
  Samples samples(n);
  for (SampleIndex& sample : samples) sample = static_cast<SampleIndex>(random() % n);
  return samples;
}

bool is_taken_for_known(const Samples& opens, std::size_t count, std::uint64_t n,
                        const std::vector<CandidateGroup>& groups) {
  OpenSet window;
  for (const SampleIndex sample : opens) {
    if (window.size() == count) break;
    static_cast<void>(window.add(sample));
  }
  const std::atomic<bool> cancelled = false;
  const SearchTask task{.n = n, .opens = &window, .cancelled = &cancelled, .least_bits = kUsualBits};
  return try_at_start(groups, task).has_value() || try_anywhere(groups, task).has_value();
}

}  // namespace

TEST_CASE("false locks: clips of eight neighbours in shuffled order are not the listing, in a hundred orders") {
  const std::vector<CandidateGroup> listing = {{"sequential"}};
  unsigned taken = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t n = seed % 2 == 0 ? 800 : 50'000;
    const Samples opens = shuffled_in_blocks(n, 8, random);
    for (const std::size_t count : {24, 32, 48, 64, 128, 256}) taken += is_taken_for_known(opens, count, n, listing);
  }
  CHECK(taken == 0);
}

TEST_CASE("false locks: shuffles and draws with replacement fit none of the usual orders, in twenty of each") {
  const std::vector<CandidateGroup> candidates = {{"sequential"},
                                                  {fresh_seed_spec(0), 0, 300},
                                                  {"torch-random:generator=explicit,seed=0", 0, 20},
                                                  {"torch-random:seed=42", 0, 20}};
  unsigned taken = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    for (const Samples& opens : {shuffled(1000, random), with_replacement(1000, random)}) {
      for (const std::size_t count : {32, 64}) taken += is_taken_for_known(opens, count, 1000, candidates);
    }
  }
  CHECK(taken == 0);
}

TEST_CASE("false locks: the listing read by workers is still known for what it is") {
  constexpr std::uint64_t kN = 4000;
  for (const std::uint64_t workers : {1, 2, 4}) {
    CAPTURE(workers);
    Samples opens;  // each worker a batch of 32, all at the same time
    for (std::uint64_t group = 0; group < 2; ++group) {
      for (std::uint64_t i = 0; i < 32; ++i) {
        for (std::uint64_t worker = 0; worker < workers; ++worker) {
          opens.push_back(static_cast<SampleIndex>((group * workers + worker) * 32 + i));
        }
      }
    }
    CHECK(is_taken_for_known(opens, 64, kN, {{"sequential"}}));
  }
}

TEST_CASE("false locks: classes read one after the other are taken for the listing a few times at most") {
  constexpr std::uint64_t kN = 5000;
  std::mt19937_64 random(5);
  OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 0.05});
  std::uint64_t known = 0;
  for (const SampleIndex sample : shuffled_in_blocks(kN, 50, random)) {
    learner.on_opens({&sample, 1});
    learner.wait_idle();
    known += learner.lock() ? 1 : 0;
  }
  CHECK(learner.state().locks <= 2);
  CHECK(known <= kN / 10);
}
