// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order_learner.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cache/order/golden.h"
#include "cache/order/loader_replay.h"
#include "support/temp_dir.h"

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

// Tells the opens one by one, as the mount does, and waits for the search where it has something to do.
void tell(OrderLearner& learner, const Samples& opens, std::size_t count = SIZE_MAX) {
  for (std::size_t i = 0; i < std::min(count, opens.size()); ++i) {
    learner.on_opens({&opens[i], 1});
    if (i < 5000 || i % 64 == 0) learner.wait_idle();
  }
}

OrderLearnerOptions quick(std::uint64_t n) {
  return {.sample_count = n, .search_all_seeds = false};
}

// The share of the epoch's samples that the lock has among its next epochs' first ones.
bool predicts(const OrderLearner& learner, std::uint64_t epoch, const std::vector<Samples>& lists) {
  const auto lock = learner.lock();
  if (!lock) return false;
  Samples expected;
  for (const Samples& list : lists) expected.insert(expected.end(), list.begin(), list.end());
  auto order = lock->order->epoch(epoch);
  if (!order) return false;
  std::ranges::sort(expected);
  std::ranges::sort(*order);
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  order->erase(std::unique(order->begin(), order->end()), order->end());
  return std::ranges::includes(*order, expected);
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
    CHECK(learner.state().search_cpu_seconds < 0.05);
    MESSAGE(lock->order->spec() << " after " << learner.state().opens_to_lock << " opens, "
                                << learner.state().search_cpu_seconds * 1e3 << " ms");
    CHECK(predicts(learner, 7, ranks_of("torch-distributed:seed=0", n, 7, 2)));
  }
}
