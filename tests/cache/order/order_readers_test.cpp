// SPDX-License-Identifier: Apache-2.0
// Readers that are faster than the search, go from one part to another, or look like somebody else.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/learn/reading.h"
#include "headrace/cache/order_learner.h"

#include "cache/order/golden.h"
#include "cache/order/loader_replay.h"

namespace order_readers_test {

using namespace headrace::cache;
using namespace headrace::test;

namespace {

using Samples = std::vector<SampleIndex>;

// One by one, as the mount does, and waits for the search.
void tell(OrderLearner& learner, const Samples& opens) {
  for (const SampleIndex& sample : opens) {
    learner.on_opens({&sample, 1});
    learner.wait_idle();
  }
}

Samples shuffled_once(std::uint64_t n, std::mt19937& random) {
  Samples samples(n);
  std::iota(samples.begin(), samples.end(), SampleIndex{0});
  std::ranges::shuffle(samples, random);
  return samples;
}

}  // namespace

TEST_CASE("order learner: an epoch that is over before it was looked at is known for the next one all the same") {
  constexpr std::uint64_t kN = 800;
  for (const char* spec : {"sequential", "torch-distributed:seed=0"}) {
    CAPTURE(spec);
    std::mt19937 random(31);
    OrderLearner learner({.sample_count = kN, .search_all_seeds = false});
    tell(learner, replay_epoch({epoch_of(spec, kN, 0)}, {.batch = 16, .workers = 2}, random));
    REQUIRE(learner.lock());
    learner.on_opens(replay_epoch({epoch_of(spec, kN, 1)}, {.batch = 16, .workers = 2}, random));
    learner.wait_idle();
    REQUIRE(learner.lock());
    CHECK(learner.lock()->epoch == 1);
    CHECK(learner.state().locks_dropped == 0);
  }
}

TEST_CASE("order learner: parts whose orders are known are one order, which stays while they take turns") {
  const SampleRange val{.first = 0, .count = 1000, .name = "val"};
  const SampleRange train{.first = 1000, .count = 8000, .name = "train"};
  std::mt19937 random(12);
  OrderLearner learner({.sample_count = 9000, .parts = {val, train}, .search_all_seeds = false});
  std::uint64_t version = 0;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    Samples of_train = epoch_of("torch-distributed:seed=0", train.count, epoch);
    for (SampleIndex& sample : of_train) sample += train.first;
    tell(learner, replay_epoch({of_train}, {.workers = 2}, random));
    auto lock = learner.lock();
    REQUIRE(lock);
    CHECK((lock->in_turn == nullptr) == (epoch == 0));
    if (epoch > 0) CHECK(lock->in_turn_version == version);
    Samples in_order(val.count);
    std::iota(in_order.begin(), in_order.end(), val.first);
    tell(learner, replay_epoch({in_order}, {.workers = 2}, random));
    lock = learner.lock();
    REQUIRE(lock);
    REQUIRE(lock->in_turn);
    CHECK(lock->in_turn->spec().starts_with("val=sequential"));
    CHECK(lock->in_turn->spec().find(" train=torch-distributed:seed=0") != std::string::npos);
    CHECK(lock->in_turn->epoch(0).value() == in_order);
    Samples next = epoch_of("torch-distributed:seed=0", train.count, epoch + 1);
    for (SampleIndex& sample : next) sample += train.first;
    CHECK(lock->in_turn->epoch(1).value() == next);
    if (epoch > 0) CHECK(lock->in_turn_version == version);
    version = lock->in_turn_version;
  }
}

// Images and masks lie in folders of their own: a mask is no neighbour of its image in the listing.
TEST_CASE("order learner: epochs that differ, of files that are read in pairs, are not replayed") {
  constexpr std::uint64_t kPairs = 3000;
  std::mt19937 random(21);
  OrderLearner learner({.sample_count = 2 * kPairs, .search_all_seeds = false, .fruitless_seconds = 0.2});
  for (int epoch = 0; epoch < 3; ++epoch) {
    Samples opens;
    for (const SampleIndex image : replay_epoch({shuffled_once(kPairs, random)}, {.batch = 16, .workers = 2}, random)) {
      opens.push_back(image);
      opens.push_back(image + static_cast<SampleIndex>(kPairs));
    }
    tell(learner, opens);
    CHECK_FALSE(learner.lock());
  }
  CHECK(learner.state().locks == 0);
}

// On a machine that has too few processors each worker opens a good part of a batch at a time.
TEST_CASE("order learner: workers that overtake one another are not taken for many ranks") {
  constexpr std::uint64_t kBatch = 16;
  for (unsigned seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::uint64_t> next = {0, kBatch};  // of each of two workers
    std::vector<std::uint64_t> opened;
    while (opened.size() < 1024) {
      std::size_t worker = random() % 2;
      if (next[worker] > next[1 - worker] + 3 * kBatch) worker = 1 - worker;  // two batches are drawn ahead
      for (std::uint64_t burst = 1 + random() % (2 * kBatch); burst > 0; --burst) {
        opened.push_back(next[worker]++);
        if (next[worker] % kBatch == 0) next[worker] += kBatch;
      }
    }
    for (const std::size_t count : {64, 256, 1024}) {
      const Reading reading = read_off(std::span(opened).first(count));
      CHECK(reading.replicas == 1);
      CHECK(reading.workers <= 8);
    }
  }
}

}  // namespace order_readers_test
