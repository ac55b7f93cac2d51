// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/set_turns.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "planned.h"

namespace headrace::fuse::set_turns_test {
namespace {

using namespace test;

// Samples drawn so that no order explains them.
std::vector<SampleIndex> shuffled(SampleIndex first, SampleIndex count, unsigned seed) {
  std::vector<SampleIndex> samples(count);
  std::iota(samples.begin(), samples.end(), first);
  std::mt19937_64 random(seed * 7919 + 1);
  std::shuffle(samples.begin(), samples.end(), random);
  return samples;
}

TEST_CASE("an order that was given and is wrong is given up within an epoch, and named") {
  constexpr unsigned kMany = 1000;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  const std::string spec = "torch-distributed:seed=3";
  PushPlan plan = planned.plan(
      {.budget_bytes = 400 * kSampleBytes,
       .order = {.order = std::move(*cache::make_order(spec, {.sample_count = kMany})), .may_be_wrong = true}});
  unsigned opens = 0;
  for (const SampleIndex sample : shuffled(0, kMany, 1)) {
    push_all(plan);
    open(plan, sample);
    ++opens;
    if (plan.take_contradiction()) break;
  }
  CHECK(opens < 200);
  CHECK(stats_of(plan).order.empty());
  CHECK(plan.given_up() == spec);
}

TEST_CASE("an epoch counter that runs away ends the order") {
  EpochPace pace;
  CHECK_FALSE(pace.is_impossible(1, 1000, 900, 300));
  CHECK_FALSE(pace.is_impossible(2, 1000, 1900, 600));
  CHECK_FALSE(pace.is_impossible(3, 1000, 2100, 660));  // one short epoch
  CHECK(pace.is_impossible(4, 1000, 2300, 720));        // two within 400
  pace.restart(0);
  CHECK_FALSE(pace.is_impossible(7, 1000, 10, 0));  // a job that resumes
  CHECK_FALSE(pace.is_impossible(8, 1000, 1010, 300));
  CHECK_FALSE(pace.is_impossible(9, 1000, 1350, 600));  // repeated augmentation shows a third of its opens
  CHECK_FALSE(pace.is_impossible(10, 1000, 1690, 900));
}

TEST_CASE("an order of which a tenth of each epoch is read stays") {
  constexpr unsigned kMany = 1000;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  const std::shared_ptr<const cache::Order> order =
      std::move(*cache::make_order("torch-distributed:seed=3", {.sample_count = kMany}));
  PushPlan plan = planned.plan({.budget_bytes = 400 * kSampleBytes, .order = {.order = order, .may_be_wrong = true}});
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch) {
    const auto samples = order->epoch(epoch).value();
    for (unsigned i = 0; i < kMany / 10; ++i) {
      push_all(plan);
      open(plan, samples[i]);
    }
  }
  CHECK_FALSE(plan.take_contradiction());
  CHECK_FALSE(stats_of(plan).order.empty());
}

TEST_CASE("who looks at some files of a large data set ends no order, and what a set never has says nothing") {
  std::vector<SampleIndex> half(20'000);
  std::iota(half.begin(), half.end(), 0);
  OrderTrial trial(half, 40'000);
  bool contradicted = false;
  for (unsigned i = 0; i < 300; ++i) contradicted |= trial.is_contradicted_by(i, true);
  for (unsigned i = 0; i < 9'000; ++i) contradicted |= trial.is_contradicted_by(20'000 + i, true);
  CHECK_FALSE(contradicted);
  for (unsigned i = 0; i < 700; ++i) contradicted |= trial.is_contradicted_by(i, true);
  CHECK(contradicted);
}

// train/ has the first samples, val/ the ones after, then come some that nobody has an order for.
constexpr SampleIndex kTrain = 800;
constexpr SampleIndex kVal = 700;
constexpr SampleIndex kOther = 100;

cache::OrderedSet set(const std::string& name, SampleIndex first, SampleIndex count, const std::string& spec) {
  cache::OrderedSet made{.name = name, .samples = std::vector<SampleIndex>(count), .order = nullptr};
  std::iota(made.samples.begin(), made.samples.end(), first);
  made.order = std::move(*cache::make_order(spec, {.sample_count = count}));
  return made;
}

PushPlanOptions two_sets(bool in_turn = true, const std::string& val = "sequential") {
  auto sets = std::make_shared<std::vector<cache::OrderedSet>>();
  sets->push_back(set("train", 0, kTrain, "torch-distributed:seed=0"));
  sets->push_back(set("val", kTrain, kVal, val));
  const cache::PassOptions options{.sample_count = kTrain + kVal + kOther, .in_turn = in_turn};
  return {.budget_bytes = 400 * kSampleBytes,
          .order = {.order = std::make_shared<cache::PassOrder>(std::move(sets), options), .may_be_wrong = true}};
}

std::vector<SampleIndex> train_epoch(std::uint64_t epoch) {
  return (*cache::make_order("torch-distributed:seed=0", {.sample_count = kTrain}))->epoch(epoch).value();
}

std::vector<SampleIndex> val_epoch() {
  std::vector<SampleIndex> samples(kVal);
  std::iota(samples.begin(), samples.end(), kTrain);
  return samples;
}

void read(PushPlan& plan, const std::vector<SampleIndex>& samples, std::size_t first = 0, std::size_t end = SIZE_MAX) {
  for (std::size_t i = first; i < std::min(end, samples.size()); ++i) {
    push_all(plan);
    open(plan, samples[i]);
  }
}

const std::vector<std::size_t> kSizesOfSets(kTrain + kVal + kOther, kSampleBytes);

TEST_CASE("train and val are each read ahead along their orders, and the source is read no more than it must") {
  Planned planned(kSizesOfSets);
  PushPlan plan = planned.plan(two_sets());
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    read(plan, train_epoch(epoch));
    CHECK(stats_of(plan).strays == 0);
    read(plan, val_epoch());
  }
  CHECK(stats_of(plan).strays == 0);
  CHECK(stats_of(plan).hits == 3 * (kTrain + kVal));
  const std::uint64_t least = 3 * (kTrain + kVal) - 2 * (400 - 64);  // 64 are the window
  CHECK(stats_of(plan).pushed_samples <= least * 105 / 100);
  read(plan, train_epoch(3), 0, 100);
  CHECK(stats_of(plan).order_set == "train");
  CHECK(stats_of(plan).epoch == 3);
}

TEST_CASE("what lies outside of the sets is read plainly: no strays, no contradiction") {
  Planned planned(kSizesOfSets);
  PushPlan plan = planned.plan(two_sets());
  read(plan, train_epoch(0), 0, 100);
  for (SampleIndex other = kTrain + kVal; other < kTrain + kVal + kOther; ++other) open(plan, other);
  read(plan, train_epoch(0), 100);
  CHECK(stats_of(plan).strays == 0);
  CHECK_FALSE(plan.take_contradiction());
}

TEST_CASE("a set is turned to in the middle of another, which goes on where it was") {
  Planned planned(kSizesOfSets);
  PushPlan plan = planned.plan(two_sets());
  read(plan, val_epoch(), 0, 60);  // a sanity check before the training
  CHECK(stats_of(plan).order_set == "val");
  read(plan, train_epoch(0), 0, 400);
  read(plan, val_epoch());
  read(plan, train_epoch(0), 400, 790);
  CHECK(stats_of(plan).strays <= 4 * 16);
  CHECK(stats_of(plan).order_set == "train");
  CHECK(stats_of(plan).epoch == 0);
  read(plan, train_epoch(0), 790);
  read(plan, train_epoch(1), 0, 400);
  CHECK_FALSE(plan.take_contradiction());
  CHECK(stats_of(plan).epoch == 1);
  CHECK(stats_of(plan).hits * 100 >= stats_of(plan).opens * 90);
}

TEST_CASE("a set that is never read is skipped once or twice, then expected no more") {
  Planned planned(kSizesOfSets);
  PushPlan plan = planned.plan(two_sets());
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) read(plan, train_epoch(epoch));
  CHECK_FALSE(plan.take_contradiction());
  CHECK(stats_of(plan).epoch >= 5);
  const std::uint64_t strays = stats_of(plan).strays;
  CHECK(strays <= 64);
  for (std::uint64_t epoch = 6; epoch < 9; ++epoch) read(plan, train_epoch(epoch));
  CHECK(stats_of(plan).strays == strays);
}

TEST_CASE("an order without a name is followed in the folder that is read, and learns that val follows") {
  Planned planned(kSizesOfSets);
  PushPlan plan = planned.plan(two_sets(false));
  std::uint64_t strays = 0;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    strays = stats_of(plan).strays;
    read(plan, train_epoch(epoch));
    read(plan, val_epoch());
  }
  CHECK(stats_of(plan).strays == strays);  // none in the last epoch
  CHECK_FALSE(plan.take_contradiction());
}

TEST_CASE("a process that takes over goes on in the set and the epoch where the reader is") {
  for (const bool in_turn : {true, false}) {
    CAPTURE(in_turn);
    Planned planned(kSizesOfSets);
    {
      PushPlan plan = planned.plan(two_sets(in_turn));
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        read(plan, train_epoch(epoch));
        read(plan, val_epoch());
      }
      read(plan, train_epoch(3), 0, 300);
    }
    planned.head.takeovers = 1;
    PushPlan plan = planned.plan(two_sets(in_turn));
    CHECK(stats_of(plan).order_set == "train");
    CHECK(stats_of(plan).epoch == 3);
    CHECK(stats_of(plan).position == 300);
    read(plan, train_epoch(3), 300);
    CHECK(stats_of(plan).strays == 0);
    read(plan, val_epoch());
    read(plan, train_epoch(4), 0, 300);
    CHECK(stats_of(plan).epoch == 4);
    CHECK(stats_of(plan).strays <= 2 * 16);  // what follows which set is learned anew
    CHECK_FALSE(plan.take_contradiction());
    planned.head.takeovers = 2;
    PushPlan next = planned.plan(two_sets(in_turn));
    read(next, train_epoch(4), 300);
    CHECK(stats_of(next).strays == 0);
  }
}

TEST_CASE("a wrong order of val is let go, and that of train stays") {
  Planned planned(kSizesOfSets);
  PushPlan plan = planned.plan(two_sets(true, "torch-distributed:seed=9"));
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    read(plan, train_epoch(epoch));
    read(plan, shuffled(kTrain, kVal, 2));
  }
  CHECK(plan.take_contradiction());
  CHECK(plan.given_up() == "val=torch-distributed:seed=9");
  const std::uint64_t strays = stats_of(plan).strays;
  read(plan, train_epoch(2));
  CHECK(stats_of(plan).strays <= strays + 20);
  CHECK(stats_of(plan).order_set == "train");
}

}  // namespace
}  // namespace headrace::fuse::set_turns_test
