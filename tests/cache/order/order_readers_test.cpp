// SPDX-License-Identifier: Apache-2.0
// Readers that are faster than the search, go from one part to another, leave before the end, or look like somebody
// else.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/learn/companions.h"
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
    OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
    tell(learner, replay_epoch({epoch_of(spec, kN, 0)}, {.batch = 16, .workers = 2}, random));
    REQUIRE(learner.lock());
    learner.on_opens(replay_epoch({epoch_of(spec, kN, 1)}, {.batch = 16, .workers = 2}, random));
    learner.wait_idle();
    REQUIRE(learner.lock());
    CHECK(learner.lock()->epoch == 1);
    CHECK(learner.state().locks_dropped == 0);
  }
}

TEST_CASE("order learner: three jobs that read the same order are no repeated augmentation") {
  constexpr std::uint64_t kN = 10'240;
  OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    const Samples order = epoch_of("torch-distributed:seed=0", kN, epoch);
    Samples opens;
    for (const SampleIndex sample : order) opens.insert(opens.end(), 3, sample);
    const auto half = opens.begin() + static_cast<std::ptrdiff_t>(opens.size() / 2);
    tell(learner, {opens.begin(), half});
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(lock->order->spec().starts_with("torch-distributed:seed=0"));
    tell(learner, {half, opens.end()});
    CHECK(*learner.lock()->order->epoch(epoch) == order);
  }
}

TEST_CASE("order learner: parts whose orders are known are one order, which stays while they take turns") {
  const SampleRange val{.first = 0, .count = 1000, .name = "val"};
  const SampleRange train{.first = 1000, .count = 8000, .name = "train"};
  std::mt19937 random(12);
  OrderLearner learner(
      {.sample_count = 9000, .parts = {val, train}, .search_all_seeds = false, .fruitless_seconds = 1000});
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

TEST_CASE("order learner: images and masks that are opened together have the order of the images") {
  constexpr std::uint64_t kPairs = 3000;
  const SampleRange images{.first = 0, .count = kPairs, .name = "images"};
  const SampleRange masks{.first = kPairs, .count = kPairs, .name = "masks"};
  std::mt19937 random(22);
  OrderLearner learner(
      {.sample_count = 2 * kPairs, .parts = {images, masks}, .search_all_seeds = false, .fruitless_seconds = 1000});
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    CAPTURE(epoch);
    Samples opens;
    for (const SampleIndex image :
         replay_epoch({epoch_of("torch-distributed:seed=0", kPairs, epoch)}, {.batch = 16, .workers = 2}, random)) {
      opens.push_back(image);
      opens.push_back(image + static_cast<SampleIndex>(kPairs));
    }
    tell(learner, Samples(opens.begin(), opens.begin() + 200));
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(lock->order->spec().starts_with("together:images+masks,of="));
    const Samples first = epoch_of("torch-distributed:seed=0", kPairs, epoch);
    const Samples together = lock->order->prefix(epoch, 5).value();
    CHECK(together == Samples{first[0], first[0] + 3000, first[1], first[1] + 3000, first[2]});
    CHECK(lock->order->length(epoch) == 2 * kPairs);
    CHECK(learner.opens_of_epoch().size() % 2 == 0);
    CHECK(learner.opens_of_epoch().size() >= 150);
    tell(learner, Samples(opens.begin() + 200, opens.end()));
  }
  CHECK(learner.state().locks == 1);
}

TEST_CASE("order learner: what was read of several parts before tells nothing of what is opened together later") {
  constexpr std::uint64_t kCount = 2000;
  std::vector<SampleRange> parts;
  for (const SampleIndex first : {0U, 2000U, 4000U}) parts.push_back({first, kCount, first == 0 ? "a" : "b"});
  std::mt19937 random(23);
  OrderLearner learner(
      {.sample_count = 3 * kCount, .parts = parts, .search_all_seeds = false, .fruitless_seconds = 1000});
  for (int epoch = 0; epoch < 3; ++epoch) learner.on_opens(shuffled_once(3 * kCount, random));
  learner.wait_idle();
  const Samples first = epoch_of("torch-distributed:seed=0", kCount, 0);
  for (std::size_t i = 0; i < 300; ++i) tell(learner, {first[i], static_cast<SampleIndex>(first[i] + kCount)});
  const auto lock = learner.lock();
  REQUIRE(lock);
  CHECK(*lock->order->prefix(0, 4) == Samples{first[0], first[0] + 2000, first[1], first[1] + 2000});
}

TEST_CASE("order learner: companions that are given up are parts of their own") {
  constexpr std::uint64_t kCount = 2000;
  const SampleRange images{.first = 0, .count = kCount, .name = "images"};
  const SampleRange masks{.first = kCount, .count = kCount, .name = "masks"};
  OrderLearner learner(
      {.sample_count = 2 * kCount, .parts = {images, masks}, .search_all_seeds = false, .fruitless_seconds = 1000});
  const Samples first = epoch_of("torch-distributed:seed=0", kCount, 0);
  for (std::size_t i = 0; i < 200; ++i) tell(learner, {first[i], static_cast<SampleIndex>(first[i] + kCount)});
  REQUIRE(learner.lock());
  CHECK(learner.lock()->order->spec().starts_with("together:"));
  learner.give_lock_up();
  for (std::size_t i = 200; i < 600; ++i) tell(learner, {first[i]});  // the masks are held elsewhere
  REQUIRE(learner.lock());
  CHECK(!learner.lock()->order->spec().starts_with("together:"));
  learner.learn_anew();
  for (std::size_t i = 600; i < 900; ++i) tell(learner, {first[i], static_cast<SampleIndex>(first[i] + kCount)});
  if (learner.lock()) CHECK(learner.lock()->order->spec().starts_with("together:"));
}

TEST_CASE("order learner: of pairs that ranks read in turn, each position is of the rank of its leader") {
  const SampleRange images{.first = 0, .count = 50, .name = "images"};
  const SampleRange masks{.first = 50, .count = 50, .name = "masks"};
  constexpr std::string_view kSpec = "torch-subset:range=0:50,of=torch-distributed:seed=0,replicas=2,batch=4,workers=2";
  const std::shared_ptr<const Order> leader = make_order(kSpec, {.sample_count = 100}).value();
  const Samples leaders = leader->epoch(0).value();
  const std::uint32_t ranks = leader->workers().ranks;
  REQUIRE(ranks == 2);
  const auto together = order_together(leader, {.leader = images, .others = {masks}});
  const Samples all = together->epoch(0).value();
  REQUIRE(all.size() == 2 * leaders.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    Samples opened;
    for (std::size_t i = rank; i < all.size(); i += ranks) opened.push_back(all[i]);
    Samples wanted;
    for (std::size_t i = rank; i < leaders.size(); i += ranks) {
      wanted.push_back(leaders[i]);
      wanted.push_back(leaders[i] + 50);
    }
    CHECK(opened == wanted);
  }
  for (std::uint64_t count = 0; count <= all.size(); ++count)
    CHECK(together->prefix(0, count).value() == Samples(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)));
  CHECK(together->workers().ranks == ranks);
  CHECK(together->workers().batch == 2 * leader->workers().batch);
}

TEST_CASE("order learner: parts of one size that are read independently of each other are no companions") {
  constexpr std::uint64_t kCount = 2000;
  const SampleRange some{.first = 0, .count = kCount, .name = "some"};
  const SampleRange others{.first = kCount, .count = kCount, .name = "others"};
  std::mt19937 random(24);
  OrderLearner learner(
      {.sample_count = 2 * kCount, .parts = {some, others}, .search_all_seeds = false, .fruitless_seconds = 1000});
  const Samples first = epoch_of("torch-distributed:seed=0", kCount, 0);
  const Samples second = epoch_of("torch-distributed:seed=5", kCount, 0);
  for (std::size_t i = 0; i < kCount; ++i) {
    tell(learner, {first[i], static_cast<SampleIndex>(kCount + second[i])});
    const auto lock = learner.lock();
    if (lock) CHECK(lock->order->spec().find("together") == std::string::npos);
  }
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

namespace {

// The opens of an epoch that a loop over all ranks breaks off, its workers a little further each time.
Samples broken_off(std::uint64_t n, std::uint64_t epoch, std::size_t count, std::mt19937& random) {
  const auto rank = [&](int number) {
    return epoch_of("torch-distributed:seed=0,replicas=2,rank=" + std::to_string(number), n, epoch);
  };
  Samples opens = replay_epoch({rank(0), rank(1)}, {.batch = 16, .workers = 2}, random);
  opens.resize(std::min(count + random() % 32, opens.size()));
  return opens;
}

}  // namespace

TEST_CASE("order learner: where each epoch is broken off at the same place, the order ends there from the second on") {
  constexpr std::uint64_t kN = 4000;
  std::mt19937 random(4);
  OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    tell(learner, broken_off(kN, epoch, 2000, random));
    REQUIRE(learner.lock());
    CHECK(learner.lock()->epoch == epoch);
    lengths.push_back(learner.lock()->order->length(epoch));
  }
  CHECK(lengths[0] == kN);
  for (const std::size_t epoch : {1, 2, 3, 4}) {
    CHECK(lengths[epoch] >= 2000);
    CHECK(lengths[epoch] < 2064);
  }
  CHECK(learner.lock()->order->spec().starts_with("first:samples=20"));
  const Samples later = epoch_of("torch-distributed:seed=0", kN, 9);
  CHECK(*learner.lock()->order->prefix(9, 100) == Samples(later.begin(), later.begin() + 100));
  CHECK(learner.state().locks == 1);

  tell(learner, broken_off(kN, 5, kN, random));  // a loop that reads all is followed to its end
  CHECK(learner.lock()->epoch == 5);
  CHECK(learner.lock()->order->length(5) == kN);
  CHECK(learner.state().locks_dropped == 0);
}

TEST_CASE("order learner: a node that reads every other batch, or every eighth, reads no shorter epochs") {
  constexpr std::uint64_t kN = 8000;
  for (const int nodes : {2, 8}) {
    CAPTURE(nodes);
    std::mt19937 random(6);
    OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const std::string spec = "hf-trainer:seed=0,batch=32,rank=1,replicas=" + std::to_string(nodes);
      tell(learner, replay_epoch({epoch_of(spec, kN, epoch)}, {.workers = 2}, random));
      REQUIRE(learner.lock());
      CHECK(learner.lock()->order->length(epoch) == kN);
    }
  }
}

TEST_CASE("order learner: the end of another job's epoch is not taken for the end of this one's") {
  constexpr std::uint64_t kN = 2000;
  std::mt19937 random(6);
  OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const ReplayLoader shape{.batch = 16, .workers = 2};
    const Samples one = replay_epoch({epoch_of("torch-distributed:seed=0", kN, epoch)}, shape, random);
    const Samples other = replay_epoch({epoch_of("torch-distributed:seed=100", kN, epoch)}, shape, random);
    for (std::size_t i = 0; i < kN; ++i) {
      tell(learner, {one[i], other[i]});
      if (const auto lock = learner.lock()) CHECK(lock->order->spec().find("first:") == std::string::npos);
    }
  }
}

TEST_CASE("order learner: epochs that are broken off at different places are followed to their ends") {
  constexpr std::uint64_t kN = 4000;
  std::mt19937 random(5);
  OrderLearner learner({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1000});
  std::uint64_t epoch = 0;
  for (const std::size_t count : {2000, 3000, 1000, 2000, 3000}) {
    tell(learner, broken_off(kN, epoch++, count, random));
    REQUIRE(learner.lock());
    CHECK(learner.lock()->order->length(0) == kN);  // the first one was believed, and the second one went on
  }
}

TEST_CASE("order learner: where batches cannot be told, the window is as wide as opens are out of sequence") {
  constexpr SampleIndex kSamples = 4000;
  Samples positions;  // each three times in a row, of which the kernel tells the first: a batch begins within a sample
  for (SampleIndex i = 0; i < 3 * kSamples; ++i) positions.push_back(i / 3);
  for (unsigned seed = 0; seed < 5; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> seen;
    std::vector<bool> was_opened(kSamples);
    for (const SampleIndex position : replay_epoch({positions}, {.batch = 16, .workers = 2}, random)) {
      if (!was_opened[position]) seen.push_back(position);
      was_opened[position] = true;
    }
    seen.insert(seen.begin() + 100, {3500, 3701, 3902});  // strays
    for (const std::size_t opens : {256, 1024}) {
      const Reading reading = read_off(std::span(seen).first(opens));
      CAPTURE(opens);
      CHECK(reading.batch * reading.workers >= 8);  // a batch has five samples, of each worker
      CHECK(reading.batch * reading.workers <= 64);
    }
  }
}

}  // namespace order_readers_test
