// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order_learner.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <random>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "headrace/cache/catalog.h"
#include "headrace/cache/learn/cpu_allowance.h"
#include "headrace/cache/learn/reading.h"
#include "headrace/cache/order/mt19937.h"

#include "cache/order/golden.h"
#include "cache/order/loader_replay.h"
#include "cache/order/replay_mount.h"
#include "support/rounds.h"
#include "support/temp_dir.h"

namespace order_learner_test {

using namespace headrace::cache;
using namespace headrace::test;

namespace {

using Samples = std::vector<SampleIndex>;

std::vector<Samples> ranks_of(const std::string& spec, std::uint64_t n, std::uint64_t epoch, int replicas,
                              int first = 0, int count = 0) {
  std::vector<Samples> lists;
  for (int rank = first; rank < first + (count == 0 ? replicas : count); ++rank) {
    lists.push_back(epoch_of(fmt::format("{},replicas={},rank={}", spec, replicas, rank), n, epoch));
  }
  return lists;
}

// Tells the opens one by one, as the mount does, and waits for the search: after each of the first ones, by which an
// order is to be found, and then after every sixteenth.
void tell(OrderLearner& learner, const Samples& opens, std::size_t count = SIZE_MAX) {
  for (std::size_t i = 0; i < std::min(count, opens.size()); ++i) {
    learner.on_opens({&opens[i], 1});
    if (i < 512 || i % 16 == 0) learner.wait_idle();
  }
  learner.wait_idle();
}

// With time enough for what a sanitizer makes of a search.
OrderLearnerOptions quick(std::uint64_t n) {
  return {.sample_count = n, .search_all_seeds = false, .fruitless_seconds = 1000};
}
OrderLearnerOptions searching(std::uint64_t n, std::uint64_t seeds) {
  return {.sample_count = n, .search_threads = 1, .search_seeds = seeds, .link_outputs = 1 << 16};
}

Samples shuffled_once(std::uint64_t n, std::mt19937& random) {
  Samples samples(n);
  std::iota(samples.begin(), samples.end(), SampleIndex{0});
  std::ranges::shuffle(samples, random);
  return samples;
}

// The share of the epoch's samples that the lock has among its next epochs' first ones.
bool predicts(const OrderLearner& learner, std::uint64_t epoch, const std::vector<Samples>& lists) {
  const auto lock = learner.lock();
  if (!lock) return false;
  const auto order = lock->order->epoch(epoch);
  if (!order) return false;
  std::vector<char> is_predicted(std::ranges::max(*order) + std::size_t{1});
  for (const SampleIndex sample : *order) is_predicted[sample] = 1;
  return std::ranges::all_of(lists, [&](const Samples& list) {
    return std::ranges::all_of(
        list, [&](SampleIndex sample) { return sample < is_predicted.size() && is_predicted[sample] != 0; });
  });
}

}  // namespace

TEST_CASE("order learner: DistributedSampler with seed 0 is locked within 64 opens, 2 ranks and 2 workers each") {
  for (const std::uint64_t n : {4000ULL, 50'000ULL, 1'281'167ULL}) {
    std::mt19937 random(1);
    OrderLearner learner(quick(n));
    const auto opens = replay_epoch(ranks_of("torch-distributed:seed=0", n, 0, 2), {.batch = 32, .workers = 2}, random);
    tell(learner, opens, 64);
    CAPTURE(n);
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(lock->epoch == 0);
    CHECK(lock->known_epochs > 100);
    CHECK(learner.state().opens_to_lock <= 64);
    MESSAGE(lock->order->spec() << " after " << learner.state().opens_to_lock << " opens, "
                                << learner.state().search_cpu_seconds * 1e3 << " ms");
    CHECK(predicts(learner, 7, ranks_of("torch-distributed:seed=0", n, 7, 2)));
  }
}

TEST_CASE("order learner: 200 samples are enough to know the order of each epoch before it ends") {
  for (const std::uint64_t n : {200ULL, 300ULL}) {
    CAPTURE(n);
    std::mt19937 random(22);
    OrderLearner learner(quick(n));
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const auto lists = ranks_of("torch-distributed:seed=0", n, epoch, 2);
      tell(learner, replay_epoch(lists, {.batch = 8, .workers = 2}, random));
      const auto lock = learner.lock();
      REQUIRE(lock);
      CHECK(lock->epoch == epoch);
      CHECK(predicts(learner, epoch, lists));
    }
    CHECK(learner.state().locks_dropped == 0);
  }
}

TEST_CASE("order learner: epochs follow each other, also with drop_last and a broken-off epoch") {
  constexpr std::uint64_t kN = 5000;
  std::mt19937 random(2);
  OrderLearner learner(quick(kN));
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    auto opens = replay_epoch(ranks_of("torch-distributed:seed=3,drop_last=1", kN, epoch, 2),
                              {.batch = 64, .workers = 3, .drop_last = true}, random);
    if (epoch == 1) opens.resize(opens.size() / 3);
    tell(learner, opens);
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(predicts(learner, lock->epoch, ranks_of("torch-distributed:seed=3", kN, epoch, 2)));
  }
  CHECK(learner.state().locks == 1);
  CHECK(learner.state().locks_dropped == 0);
  CHECK(learner.state().epochs_seen == 4);
}

TEST_CASE("order learner: a script that forgets set_epoch is recognised in its second epoch") {
  constexpr std::uint64_t kN = 3000;
  std::mt19937 random(3);
  OrderLearner learner(quick(kN));
  for (int epoch = 0; epoch < 3; ++epoch) {
    tell(learner, replay_epoch(ranks_of("torch-distributed:seed=0", kN, 0, 1), {.workers = 4}, random));
  }
  const auto lock = learner.lock();
  REQUIRE(lock);
  CHECK(lock->order->spec().find("set_epoch=0") != std::string::npos);
  CHECK(learner.state().locks == 2);
}

TEST_CASE("order learner: a job that resumes in the middle of an epoch is found where it is") {
  constexpr std::uint64_t kN = 20'000;
  std::mt19937 random(4);
  OrderLearner learner(quick(kN));
  auto lists = ranks_of("torch-distributed:seed=0", kN, 12, 2);
  for (Samples& list : lists) list.erase(list.begin(), list.begin() + 64 * 50);
  tell(learner, replay_epoch(lists, {.batch = 64, .workers = 2}, random), 700);
  const auto lock = learner.lock();
  REQUIRE(lock);
  CHECK(lock->epoch == 12);
  CHECK(lock->position == 2 * 64 * 50);
}

TEST_CASE("order learner: one node of several is told its own ranks") {
  constexpr std::uint64_t kN = 100'000;
  std::mt19937 random(5);
  OrderLearner learner(quick(kN));
  tell(learner,
       replay_epoch(ranks_of("torch-distributed:seed=42", kN, 0, 16, 8, 8), {.batch = 16, .workers = 2}, random), 2000);
  const auto lock = learner.lock();
  REQUIRE(lock);
  CHECK(lock->order->spec().find("replicas=16,rank=8-15") != std::string::npos);
  CHECK(lock->order->length(0) == kN / 2);
  CHECK(learner.state().locks == 1);
}

TEST_CASE("order learner: strays do not disturb a lock, nor keep it from being found") {
  constexpr std::uint64_t kN = 10'000;
  std::mt19937 random(6);
  OrderLearner learner(quick(kN));
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    auto opens = replay_epoch(ranks_of("torch-distributed:seed=1", kN, epoch, 1), {.workers = 2}, random);
    for (std::size_t i = 0; i < opens.size(); i += 12)
      opens.insert(opens.begin() + static_cast<std::ptrdiff_t>(i), static_cast<SampleIndex>(random() % kN));
    tell(learner, opens);
    CHECK(learner.lock());
  }
  CHECK(learner.state().locks == 1);
}

TEST_CASE("order learner: families with constant seeds") {
  constexpr std::uint64_t kN = 3000;
  for (const char* spec :
       {"dali", "dali:libstdcxx=10", "numpy:seed=42", "python:seed=42", "ffcv:seed=0", "dlio",
        "torch-random:generator=explicit,seed=42", "torch-random:seed=1234", "detectron2", "sequential"}) {
    std::mt19937 random(7);
    OrderLearner learner(quick(kN));
    CAPTURE(spec);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      const auto list = epoch_of(spec, kN, epoch);
      tell(learner, replay_epoch({list}, {.workers = 2}, random));
      const auto lock = learner.lock();
      REQUIRE(lock);
      MESSAGE(lock->order->spec() << ", epoch " << lock->epoch);
      CHECK(*lock->order->epoch(lock->epoch) == list);
    }
  }
}

TEST_CASE("order learner: repeated augmentation is told by its repeated opens") {
  constexpr std::uint64_t kN = 10'240;
  std::mt19937 random(8);
  OrderLearner learner(quick(kN));
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    tell(learner, replay_epoch(ranks_of("ra-sampler:seed=0", kN, epoch, 2), {.batch = 64, .workers = 2}, random));
  }
  const auto lock = learner.lock();
  REQUIRE(lock);
  CHECK(lock->order->spec().starts_with("ra-sampler:seed=0"));
  CHECK(lock->epoch == 1);
}

TEST_CASE("order learner: an unseeded RandomSampler is found among all seeds, and again in its next epoch") {
  constexpr std::uint64_t kN = 4000;
  std::mt19937 random(9);
  OrderLearner learner(searching(kN, 1 << 23));
  for (const std::uint32_t seed : {5'555'555U, 7'000'001U}) {
    const auto list = epoch_of(fmt::format("torch-distributed:seed={}", seed), kN, 0);
    tell(learner, replay_epoch({list}, {.batch = 32, .workers = 2}, random));
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(lock->known_epochs == 1);
    CHECK(lock->found_by == "seed search");
    CHECK(*lock->order->epoch(lock->epoch) == list);
  }
  CHECK(learner.state().seeds_tested > 5'000'000);
}

TEST_CASE("order learner: RandomSampler epochs are linked through the default generator") {
  constexpr std::uint64_t kN = 4000;
  // manual_seed(42), a model of some thousand weights, a validation loader: 6 outputs per epoch. The place is chosen
  // where the first epoch's seed is small, so that the search through all seeds need not go far.
  std::uint64_t offset = 0;
  std::uint32_t first_seed = UINT32_MAX;
  Mt19937 stream(42);
  while (first_seed >> 21 != 0) {
    static_cast<void>(stream.next32());
    first_seed = stream.next32();
    offset += 2;
  }
  const std::string spec = fmt::format("torch-random:seed=42,loader=0,offset={},stride=6", offset - 2);
  std::mt19937 random(10);
  OrderLearner learner(searching(kN, 1 << 21));
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const auto list = epoch_of(spec, kN, epoch);
    tell(learner, replay_epoch({list}, {.batch = 32, .workers = 2}, random));
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(*lock->order->epoch(lock->epoch) == list);
    CHECK(lock->known_epochs == (epoch == 0 ? 1 : UINT64_MAX));
  }
}

TEST_CASE("order learner: a seed that a model's initialisation came before is found among the usual seeds' outputs") {
  constexpr std::uint64_t kN = 2000;
  const std::string spec = "torch-random:seed=1234,loader=0,offset=700001,stride=6";
  std::mt19937 random(11);
  OrderLearner learner({.sample_count = kN, .search_threads = 1, .search_seeds = 1 << 10, .link_outputs = 1 << 20});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto list = epoch_of(spec, kN, epoch);
    tell(learner, replay_epoch({list}, {.batch = 32, .workers = 2}, random));
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(*lock->order->epoch(lock->epoch) == list);
    CHECK(lock->known_epochs == (epoch == 0 ? 1 : UINT64_MAX));
  }
}

TEST_CASE("order learner: train and val are watched apart") {
  // val/ comes first in the listing: samples 0..999; train/ is 1000..8999.
  const SampleRange val{.first = 0, .count = 1000};
  const SampleRange train{.first = 1000, .count = 8000};
  std::mt19937 random(11);
  OrderLearner learner({.sample_count = 9000, .parts = {val, train}, .search_all_seeds = false});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    auto lists = ranks_of("torch-distributed:seed=0", train.count, epoch, 2);
    for (Samples& list : lists) {
      for (SampleIndex& sample : list) sample += train.first;
    }
    tell(learner, replay_epoch(lists, {.workers = 2}, random));
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(lock->order->spec().starts_with("torch-subset:range=1000:9000,of=torch-distributed:seed=0"));
    CHECK(predicts(learner, lock->epoch + 1, [&] {
      auto next = ranks_of("torch-distributed:seed=0", train.count, epoch + 1, 2);
      for (Samples& list : next) {
        for (SampleIndex& sample : list) sample += train.first;
      }
      return next;
    }()));
    Samples in_order(val.count);
    std::iota(in_order.begin(), in_order.end(), val.first);
    tell(learner, replay_epoch({in_order}, {.workers = 2}, random));
    REQUIRE(learner.lock());
    CHECK(learner.lock()->order->spec().starts_with("torch-subset:range=0:1000,of=sequential"));
  }
  CHECK(learner.state().locks == 2);
  CHECK(learner.state().locks_dropped == 0);
}

TEST_CASE("order learner: ranks that go from train to val at different times, and read val twice, change nothing") {
  const SampleRange val{.first = 0, .count = 500};
  const SampleRange train{.first = 500, .count = 4000};
  const int rounds = headrace::test::rounds(8, 100);
  for (int seed = 0; seed < rounds; ++seed) {  // how far apart the ranks are by then differs
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    OrderLearner learner({.sample_count = 4500, .parts = {val, train}, .search_all_seeds = false});
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<Samples> lists = ranks_of("torch-distributed:seed=0", train.count, epoch, 2);
      for (Samples& list : lists) {
        for (SampleIndex& sample : list) sample += train.first;
        for (SampleIndex sample = 0; sample < val.count; ++sample) list.push_back(sample);
      }
      tell(learner, replay_epoch(lists, {.workers = 2}, random));
      REQUIRE(learner.lock());
      CHECK(learner.lock()->order->spec().starts_with("torch-subset:range=0:500,of=sequential"));
    }
    CHECK(learner.state().locks == 2);
    CHECK(learner.state().locks_dropped == 0);
  }
}

TEST_CASE("order learner: a lock that stops fitting is dropped") {
  constexpr std::uint64_t kN = 20'000;
  std::mt19937 random(12);
  OrderLearner learner(quick(kN));
  tell(learner, replay_epoch(ranks_of("torch-distributed:seed=0", kN, 0, 1), {.workers = 2}, random), 3000);
  REQUIRE(learner.lock());
  Samples shuffled(kN);
  std::iota(shuffled.begin(), shuffled.end(), SampleIndex{0});
  std::ranges::shuffle(shuffled, random);
  const std::uint64_t generation = learner.generation();
  tell(learner, shuffled, 3000);
  CHECK_FALSE(learner.lock());
  CHECK(learner.generation() > generation);
  CHECK(learner.state().locks_dropped == 1);
}

TEST_CASE("order learner: while no order is known, samples not read yet are handed out once per epoch") {
  constexpr std::uint64_t kN = 2000;
  std::mt19937 random(13);
  OrderLearner learner(quick(kN));
  CHECK_FALSE(learner.next_unseen());
  Samples before(kN);
  std::iota(before.begin(), before.end(), SampleIndex{0});
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Samples shuffled = shuffled_once(kN, random);
    tell(learner, shuffled, 500);
    Samples handed;
    while (const auto sample = learner.next_unseen()) handed.push_back(*sample);
    CHECK(handed.size() >= kN - 500);
    Samples in_sequence;  // as listed, and then the last one of the epoch before first
    std::ranges::copy_if(before, std::back_inserter(in_sequence),
                         [&](SampleIndex each) { return std::ranges::find(handed, each) != handed.end(); });
    CHECK(handed == in_sequence);
    CHECK(std::ranges::find(handed, shuffled[470]) == handed.end());
    learner.on_opens({shuffled.data() + 500, kN - 500});
    before.assign(shuffled.rbegin(), shuffled.rend());
  }
  CHECK(learner.state().epochs_seen == 2);
}

TEST_CASE("order learner: orders of an earlier run that no formula explains are recognised") {
  constexpr std::uint64_t kN = 3000;
  const TempDir dir;
  std::vector<Samples> epochs;
  std::mt19937 random(14);
  for (int epoch = 0; epoch < 3; ++epoch) {
    Samples shuffled(kN);
    std::iota(shuffled.begin(), shuffled.end(), SampleIndex{0});
    std::ranges::shuffle(shuffled, random);
    epochs.push_back(shuffled);
  }
  OrderLearnerOptions options{.sample_count = kN, .record_folder = dir.path(), .search_all_seeds = false};
  {
    OrderLearner learner(options);
    for (const Samples& epoch : epochs) tell(learner, replay_epoch({epoch}, {.workers = 2}, random));
    CHECK_FALSE(learner.lock());
  }
  OrderLearner learner(options);
  tell(learner, replay_epoch({epochs[0]}, {.workers = 2}, random), 200);
  const auto lock = learner.lock();
  REQUIRE(lock);
  CHECK(lock->found_by == "record");
  tell(learner, replay_epoch({epochs[1]}, {.workers = 2}, random), 200);
  REQUIRE(learner.lock());
  CHECK(learner.lock()->epoch == 1);
}

TEST_CASE("order learner: a list that is the same in each epoch is replayed from the second one on") {
  for (const std::uint64_t n : {400ULL, 5000ULL}) {
    CAPTURE(n);
    std::mt19937 random(31);
    const Samples list = shuffled_once(n, random);
    std::vector<std::uint64_t> place_in_list(n);
    for (std::uint64_t place = 0; place < n; ++place) place_in_list[list[place]] = place;
    OrderLearner learner(quick(n));
    tell(learner, replay_epoch({list}, {.batch = 16, .workers = 2}, random));
    CHECK_FALSE(learner.lock());
    for (int epoch = 1; epoch < 4; ++epoch) {
      const Samples opens = replay_epoch({list}, {.batch = 16, .workers = 2}, random);
      tell(learner, opens, 160);
      const auto lock = learner.lock();
      REQUIRE(lock);
      CHECK(lock->order->spec().starts_with("replay:"));
      CHECK(lock->known_epochs > 100);
      const auto planned = lock->order->epoch(lock->epoch + 1);
      REQUIRE(planned);
      std::uint64_t far = 0;  // from its place in the list, by more than workers can be apart
      for (std::uint64_t place = 0; place < n; ++place) {
        const std::uint64_t in_list = place_in_list[(*planned)[place]];
        far += in_list + 64 < place || place + 64 < in_list ? 1 : 0;
      }
      CHECK(far == 0);
      learner.on_opens({opens.data() + 160, n - 160});
    }
    CHECK(learner.state().locks == 1);
    CHECK(learner.state().locks_dropped == 0);
  }
}

TEST_CASE("order learner: epochs that differ, of blocks that do not, are not replayed") {
  std::mt19937 random(32);
  const int rounds = headrace::test::rounds(20, 1000);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t block = round % 4 == 0 ? 1 : round % 4 == 1 ? 8 : round % 4 == 2 ? 50 : 200;
    const std::uint64_t n = round % 2 == 0 ? 800 : 4000;
    CAPTURE(n);
    CAPTURE(block);
    OrderLearner learner({.sample_count = n, .search_all_seeds = false, .fruitless_seconds = 0.01});
    std::string found_by;
    for (int epoch = 0; epoch < 3; ++epoch) {
      Samples opens;
      for (const SampleIndex which : shuffled_once(n / block, random)) {
        for (std::uint64_t i = 0; i < block; ++i) opens.push_back(static_cast<SampleIndex>(which * block + i));
      }
      const Samples read = replay_epoch({opens}, {.batch = 16, .workers = 2}, random);
      for (std::size_t from = 0; from < n; from += 16) {
        learner.on_opens({read.data() + from, std::min<std::size_t>(16, n - from)});
        learner.wait_idle();
        if (const auto lock = learner.lock()) found_by = lock->found_by;
      }
    }
    CHECK(found_by != "replay");
  }
}

TEST_CASE("order learner: what an epoch did not read is let go, and the order over the rest is found") {
  constexpr std::uint64_t kN = 2000;
  std::mt19937 random(33);
  Samples chosen = shuffled_once(kN, random);
  chosen.resize(kN * 6 / 10);
  std::ranges::sort(chosen);
  const auto epoch_over_chosen = [&](std::uint64_t epoch) {
    Samples opens = epoch_of("torch-distributed:seed=0", chosen.size(), epoch);
    for (SampleIndex& sample : opens) sample = chosen[sample];
    return opens;
  };
  OrderLearner learner(quick(kN));
  tell(learner, replay_epoch({epoch_over_chosen(0)}, {.workers = 2}, random));
  CHECK(learner.take_left_out().empty());  // the epoch is not over yet
  CHECK_FALSE(learner.lock());
  const Samples second = replay_epoch({epoch_over_chosen(1)}, {.workers = 2}, random);
  tell(learner, second, 128);
  Samples left_out = learner.take_left_out();
  CHECK(left_out.size() == kN - chosen.size());
  for (const SampleIndex sample : left_out) REQUIRE_FALSE(std::ranges::binary_search(chosen, sample));
  CHECK(learner.take_left_out().empty());
  const auto lock = learner.lock();
  REQUIRE(lock);
  CHECK(lock->found_by == "set that is read");
  CHECK(lock->epoch == 1);
  CHECK(*lock->order->epoch(2) == epoch_over_chosen(2));
  learner.on_opens({second.data() + 128, second.size() - 128});
  tell(learner, replay_epoch({epoch_over_chosen(2)}, {.workers = 2}, random), 200);
  REQUIRE(learner.lock());
  CHECK(learner.lock()->epoch == 2);
  CHECK(learner.state().locks_dropped == 0);
}

TEST_CASE("order learner: samples that are not read are not handed out in the epochs after") {
  constexpr std::uint64_t kN = 1000;
  std::mt19937 random(34);
  OrderLearner learner(quick(kN));
  for (int epoch = 0; epoch < 3; ++epoch) {
    Samples opens = shuffled_once(kN / 2, random);  // the second half of the data set is never read
    tell(learner, opens);
    if (epoch == 0) continue;
    while (const auto sample = learner.next_unseen()) CHECK(*sample < kN / 2);
  }
}

TEST_CASE("order learner: persistent workers of the default generator are followed from their second epoch on") {
  constexpr std::uint64_t kN = 2000;
  std::mt19937 random(35);
  OrderLearner learner(quick(kN));
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const Samples expected = epoch_of("torch-random:seed=0,persistent=1", kN, epoch);
    tell(learner, replay_epoch({expected}, {.workers = 2}, random));
    const auto lock = learner.lock();
    REQUIRE(lock);
    CHECK(*lock->order->epoch(lock->epoch) == expected);
  }
  CHECK(learner.state().locks == 2);
}

TEST_CASE("order learner: class folders that are read one after the other are one data set") {
  std::vector<SampleRange> classes;
  for (SampleIndex label = 0; label < 10; ++label) classes.push_back({.first = label * 100, .count = 100});
  OrderLearner learner({.sample_count = 1000, .parts = classes, .search_all_seeds = false});
  std::mt19937 random(36);
  for (int epoch = 0; epoch < 3; ++epoch) {
    tell(learner, replay_epoch({epoch_of("sequential", 1000, 0)}, {.batch = 16, .workers = 2}, random));
    REQUIRE(learner.lock());
    CHECK(learner.lock()->order->length(0) == 1000);
  }
  CHECK(learner.state().locks == 1);
}

TEST_CASE("order learner: the spec of an earlier run is tried first") {
  constexpr std::uint64_t kN = 3000;
  const TempDir dir;
  std::mt19937 random(15);
  const std::string spec = "torch-distributed:seed=500000";  // no usual seed
  OrderLearnerOptions options = searching(kN, 1 << 20);
  options.record_folder = dir.path();
  {
    OrderLearner learner(options);
    tell(learner, replay_epoch({epoch_of(spec, kN, 0)}, {.workers = 2}, random));
    REQUIRE(learner.lock());
    CHECK(learner.lock()->found_by == "seed search");
  }
  options.search_all_seeds = false;
  OrderLearner learner(options);
  tell(learner, replay_epoch({epoch_of(spec, kN, 0)}, {.workers = 2}, random), 64);
  REQUIRE(learner.lock());
  CHECK(learner.lock()->found_by == "record");
}

TEST_CASE("order learner: orders that cannot be known are never locked on to") {
  std::mt19937 random(16);
  const int rounds = headrace::test::rounds(20, 1000);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t n = 500 + random() % 50'000;
    OrderLearner learner(quick(n));
    Samples opens(1500);
    // Weighted sampling with replacement: some samples ten times as often as others.
    for (SampleIndex& sample : opens) {
      sample = static_cast<SampleIndex>(random() % n);
      if (random() % 2 == 0) sample = static_cast<SampleIndex>(sample / 10);
    }
    learner.on_opens(opens);
    learner.wait_idle();
    CAPTURE(round);
    CHECK_FALSE(learner.lock());
    CHECK(learner.state().locks == 0);
  }
}

TEST_CASE("order learner: searches that find nothing take a share of the time that passes, and some from the start") {
  using namespace std::chrono_literals;
  CpuAllowance allowance(0.1, 2);
  const CpuAllowance::Clock::time_point start{};
  CHECK(allowance.has_any(start));
  allowance.spend(3);
  CHECK_FALSE(allowance.has_any(start + 9s));
  CHECK(allowance.has_any(start + 11s));
  CHECK(allowance.has_any(start + 1000s));  // 2 are saved up, not 100
  allowance.spend(2.05);
  CHECK_FALSE(allowance.has_any(start + 1000s));
}

TEST_CASE("order learner: where nothing was found for long, only what is known already is tried at once") {
  constexpr std::uint64_t kN = 2000;
  std::mt19937 random(23);
  Samples shuffled(kN);
  std::iota(shuffled.begin(), shuffled.end(), SampleIndex{0});
  std::ranges::shuffle(shuffled, random);
  const auto epoch = [&](std::uint64_t number) { return ranks_of("torch-distributed:seed=0", kN, number, 1); };

  OrderLearner learner(
      {.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1e-9, .fruitless_share = 0});
  tell(learner, shuffled);
  CHECK(learner.state().searches_curtailed > 0);
  tell(learner, replay_epoch(epoch(0), {.workers = 2}, random));
  CHECK_FALSE(learner.lock());

  OrderLearner other({.sample_count = kN, .search_all_seeds = false, .fruitless_seconds = 1e-9, .fruitless_share = 0});
  tell(other, replay_epoch(epoch(0), {.workers = 2}, random));
  REQUIRE(other.lock());  // at the first attempt
  tell(other, shuffled, 500);
  CHECK_FALSE(other.lock());
  tell(other, replay_epoch(epoch(1), {.workers = 2}, random));
  REQUIRE(other.lock());
  CHECK(other.lock()->epoch == 1);
}

TEST_CASE("order learner: searches through all seeds become rarer while none explains what is read") {
  constexpr std::uint64_t kN = 1000;
  std::mt19937 random(24);
  Samples shuffled(kN);
  std::iota(shuffled.begin(), shuffled.end(), SampleIndex{0});
  OrderLearnerOptions options = searching(kN, 1 << 10);
  options.fruitless_seconds = 0;
  OrderLearner learner(options);
  std::vector<std::uint64_t> tested;
  for (int epoch = 0; epoch < 7; ++epoch) {
    std::ranges::shuffle(shuffled, random);
    tell(learner, shuffled);
    tested.push_back(learner.state().seeds_tested);
  }
  CHECK(tested[0] > 0);
  CHECK(tested[1] == tested[0]);
  CHECK(tested[2] == 2 * tested[0]);
  CHECK(tested[5] == 2 * tested[0]);
  CHECK(tested[6] == 3 * tested[0]);
}

TEST_CASE("order learner: where an epoch is too short to prove one of all seeds, none is searched") {
  for (const auto& [samples, searched] : {std::pair{149, false}, std::pair{150, true}}) {
    std::mt19937 random(25);
    Samples shuffled(static_cast<std::size_t>(samples));
    std::iota(shuffled.begin(), shuffled.end(), SampleIndex{0});
    OrderLearner learner(searching(shuffled.size(), 1 << 10));
    std::ranges::shuffle(shuffled, random);
    tell(learner, shuffled);
    CHECK((learner.state().seeds_tested > 0) == searched);
  }
}

TEST_CASE("order learner: the search for all seeds ends at once with the learner") {
  constexpr std::uint64_t kN = 100'000;
  std::mt19937 random(17);
  Samples opens(400);
  for (SampleIndex& sample : opens) sample = static_cast<SampleIndex>(random() % kN);
  std::chrono::steady_clock::time_point begin;
  {
    OrderLearner learner({.sample_count = kN, .search_threads = 2});
    learner.on_opens(opens);
    while (learner.state().seeds_tested == 0) std::this_thread::yield();
    CHECK(learner.state().searching_all_seeds);
    begin = std::chrono::steady_clock::now();  // on a busy machine idle priority takes its time to begin
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));  // to the end it takes minutes
}

TEST_CASE("order learner: the parts of a data set are its folders at the top") {
  const TempDir source;
  for (const char* path : {"train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg"}) source.write(path, "x");
  const auto catalog = Catalog::scan(source.path(), {.listing = ListingRule::kSorted});
  REQUIRE_MESSAGE(catalog.has_value(), catalog.error().message());
  const std::vector<SampleRange> parts = top_level_parts(*catalog);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0] == SampleRange{.first = 0, .count = 2, .name = "train"});
  CHECK(parts[1] == SampleRange{.first = 2, .count = 1, .name = "val"});
}

TEST_CASE("order learner: lost events, samples beyond the data set and an empty data set do no harm") {
  OrderLearner none(quick(0));
  const SampleIndex far[] = {7, UINT32_MAX};
  none.on_opens(far);
  CHECK_FALSE(none.lock());
  constexpr std::uint64_t kN = 6000;
  std::mt19937 random(18);
  OrderLearner learner(quick(kN));
  learner.on_opens(far);
  const auto opens = replay_epoch(ranks_of("torch-distributed:seed=0", kN, 0, 1), {.workers = 2}, random);
  tell(learner, opens, 10);
  learner.on_events_lost();
  tell(learner, Samples(opens.begin() + 200, opens.end()), 2000);
  CHECK(learner.lock());
}

TEST_CASE("order learner: once the order is known, 99 of 100 opens find their sample fetched") {
  constexpr std::uint64_t kN = 20'000;
  struct Job {
    int ranks;
    ReplayLoader loader;
    std::uint64_t budget_samples = kN / 4;
  };
  for (const Job& job :
       {Job{1, {.batch = 32, .workers = 2}}, Job{1, {.batch = 64, .workers = 8}}, Job{1, {.batch = 256, .workers = 16}},
        Job{1, {.batch = 256, .workers = 16}, kN / 32}, Job{2, {.batch = 64, .workers = 8}},
        Job{2, {.batch = 32, .workers = 2}}, Job{4, {.batch = 32, .workers = 4}},
        Job{2, {.batch = 32, .workers = 4, .drift = 0.5}}, Job{4, {.workers = 2, .drift = 0.3}}}) {
    std::mt19937 random(20);
    ReplayMount mount({.samples = kN, .budget_samples = job.budget_samples, .learner = quick(kN)});
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      const auto lists = ranks_of("torch-distributed:seed=0", kN, epoch, job.ranks);
      for (const SampleIndex sample : replay_epoch(lists, job.loader, random)) mount.on_open(sample);
    }
    const auto lock = mount.learner().lock();
    REQUIRE(lock);
    CAPTURE(lock->order->spec());
    CHECK(mount.opens_under_lock() > 2 * kN - 100);
    CHECK(mount.share_fetched() >= 0.99);
    const WorkerLayout layout = lock->order->workers();
    CHECK(layout.ranks == static_cast<std::uint32_t>(job.ranks));
    CHECK(layout.workers == job.loader.workers);
    CHECK(layout.batch == job.loader.batch * static_cast<std::uint32_t>(job.ranks));
  }
}

TEST_CASE("order learner: ranks that take whole batches in turn are followed however far they are apart") {
  constexpr std::uint64_t kN = 20'000;
  for (const double drift : {0.0, 0.3, 0.9}) {
    std::mt19937 random(7);
    ReplayMount mount({.samples = kN, .budget_samples = kN / 8, .learner = quick(kN)});
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      const auto lists = ranks_of("hf-trainer:seed=0,batch=32", kN, epoch, 2);
      for (const SampleIndex sample : replay_epoch(lists, {.batch = 32, .workers = 2, .drift = drift}, random)) {
        mount.on_open(sample);
      }
    }
    CAPTURE(drift);
    CHECK(mount.learner().state().locks_dropped == 0);
    CHECK(mount.share_fetched() >= 0.99);
  }
}

TEST_CASE("order learner: ranks, batch size and workers are read off 256 opens") {
  struct Job {
    std::size_t ranks;
    ReplayLoader loader;
  };
  for (const Job& job : {Job{1, {.batch = 32, .workers = 2}}, Job{1, {.batch = 64, .workers = 8}},
                         Job{2, {.batch = 64, .workers = 1}}, Job{2, {.batch = 32, .workers = 2}},
                         Job{4, {.batch = 128, .workers = 8}}, Job{8, {.batch = 128, .workers = 4}}}) {
    std::vector<Samples> positions(job.ranks);
    for (SampleIndex position = 0; position < 20'000; ++position) positions[position % job.ranks].push_back(position);
    for (unsigned seed = 0; seed < 5; ++seed) {
      std::mt19937 random(static_cast<unsigned>(seed));
      const Samples opens = replay_epoch(positions, job.loader, random);
      std::vector<std::uint64_t> seen(opens.begin(), opens.begin() + 256);
      seen.insert(seen.begin() + 100, {15'000, 17'001, 19'002});  // strays
      const Reading reading = read_off(seen);
      CAPTURE(job.ranks);
      CAPTURE(job.loader.workers);
      CHECK(reading.replicas == job.ranks);
      CHECK(reading.ranks == job.ranks);
      CHECK(reading.workers == job.loader.workers);
      if (job.loader.workers > 1) CHECK(reading.batch == job.loader.batch);
    }
  }
}

TEST_CASE("order learner: a job of ranks that were far apart is followed again in its next epoch") {
  constexpr std::uint64_t kN = 4000;
  std::mt19937 random(21);
  ReplayMount mount({.samples = kN, .budget_samples = kN / 2, .learner = quick(kN)});
  const auto replay = [&](std::uint64_t epoch, double drift) {
    const auto lists = ranks_of("torch-distributed:seed=0", kN, epoch, 4);
    for (const SampleIndex sample : replay_epoch(lists, {.workers = 2, .drift = drift}, random)) mount.on_open(sample);
    return mount.share_fetched() * static_cast<double>(mount.opens_under_lock());
  };
  replay(0, 0.9);
  replay(1, 0);
  const double before = replay(2, 0);
  CHECK(replay(3, 0) - before > 0.95 * kN);
}

}  // namespace order_learner_test
