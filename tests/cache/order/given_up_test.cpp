// SPDX-License-Identifier: Apache-2.0
// Locks that whoever follows them gives up.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/order_learner.h"

#include "cache/order/golden.h"

namespace given_up_test {
namespace {

using namespace headrace::cache;
using namespace headrace::test;

using Samples = std::vector<SampleIndex>;

// With time enough for what a sanitizer makes of a search.
OrderLearnerOptions quick(std::uint64_t n) {
  return {.sample_count = n, .search_all_seeds = false, .fruitless_seconds = 1000};
}

// One by one, as the mount does.
void tell(OrderLearner& learner, const Samples& opens, std::size_t first = 0, std::size_t end = SIZE_MAX) {
  for (std::size_t i = first; i < std::min(end, opens.size()); ++i) {
    learner.on_opens({&opens[i], 1});
    learner.wait_idle();
  }
}

Samples epoch_of_torch(std::uint64_t n, std::uint64_t epoch) {
  return epoch_of("torch-distributed:seed=0", n, epoch);
}

TEST_CASE("order learner: a lock that its follower gives up is not found again") {
  constexpr std::uint64_t kN = 4000;
  OrderLearner learner(quick(kN));
  const Samples epoch = epoch_of_torch(kN, 0);
  tell(learner, epoch, 0, 300);
  REQUIRE(learner.lock().has_value());
  const std::uint64_t generation = learner.generation();
  learner.give_lock_up();
  CHECK_FALSE(learner.lock().has_value());
  CHECK(learner.generation() > generation);
  tell(learner, epoch, 300, 1500);
  CHECK_FALSE(learner.lock().has_value());
}

TEST_CASE("order learner: a lock that was given up is found again some epochs later: another job reads that way") {
  constexpr std::uint64_t kN = 2000;
  OrderLearner learner(quick(kN));
  tell(learner, epoch_of_torch(kN, 0), 0, 300);
  REQUIRE(learner.lock().has_value());
  learner.give_lock_up();
  std::uint64_t epoch = 1;
  for (; epoch < 6 && !learner.lock(); ++epoch) tell(learner, epoch_of_torch(kN, epoch));
  CHECK(epoch > 2);
  CHECK(learner.lock().has_value());
}

TEST_CASE("order learner: a learner that is to begin anew drops its lock, and finds the same order again") {
  constexpr std::uint64_t kN = 2000;
  OrderLearner learner(quick(kN));
  tell(learner, epoch_of_torch(kN, 0), 0, 100);
  REQUIRE(learner.lock());
  learner.give_lock_up();
  learner.learn_anew();
  CHECK(!learner.lock());
  tell(learner, epoch_of_torch(kN, 1), 0, 100);
  REQUIRE(learner.lock());
  CHECK(learner.lock()->epoch == 1);
}

}  // namespace
}  // namespace given_up_test
