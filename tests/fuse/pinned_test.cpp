// SPDX-License-Identifier: Apache-2.0
// Samples that somebody pinned, in the plan of what is pushed.
#include <algorithm>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/fuse/push/push_plan.h"

#include "planned.h"

namespace headrace::fuse::pinned_test {
namespace {

using namespace test;

bool holds(const PushPlan& plan, const std::vector<SampleIndex>& samples) {
  return std::ranges::all_of(samples, [&](SampleIndex sample) { return plan.pages().is_held(sample); });
}

const std::vector<SampleIndex> kPins = {20, 25, 30};

TEST_CASE("what is pinned is held through all epochs, and what is held never exceeds the budget") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 16 * kSampleBytes, .order = sequential()});
  push_all(plan);
  REQUIRE(plan.pin(kPins).is_pinned);
  push_all(plan);
  CHECK(holds(plan, kPins));
  for (SampleIndex i = 0; i < 3 * kSampleCount; ++i) {
    open(plan, i % kSampleCount);
    push_all(plan);
    CHECK(holds(plan, kPins));
    CHECK(stats_of(plan).held_bytes <= 16 * kSampleBytes);
  }
  CHECK(stats_of(plan).hits == 3 * kSampleCount);
  CHECK(stats_of(plan).pinned_samples == 3);
  CHECK(stats_of(plan).pinned_held_samples == 3);
  CHECK(stats_of(plan).pinned_bytes == 3 * kSampleBytes);
}

TEST_CASE("what is pinned takes its room once: the order has all of the rest") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 16 * kSampleBytes, .order = sequential()});
  const std::size_t before = push_all(plan).size();
  REQUIRE(plan.pin(std::vector<SampleIndex>{0, 1, 2}).is_pinned);  // these are held already
  push_all(plan);
  CHECK(stats_of(plan).held_samples >= before);
}

TEST_CASE("with half of the budget pinned the order is read ahead in the rest, and nothing is fetched for no room") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 16 * kSampleBytes, .order = sequential()});
  push_all(plan);
  REQUIRE(plan.pin(std::vector<SampleIndex>{20, 21, 22, 23, 24, 25, 26, 27}).is_pinned);
  for (SampleIndex i = 0; i < 2 * kSampleCount; ++i) {
    while (const auto sample = plan.next_fetch()) {
      while (plan.next_victim(plan.pages().bytes_of(*sample))) continue;
      REQUIRE(plan.place(*sample));
      plan.on_fetched(*sample, plan.generation(), Landing::kPushed);
    }
    open(plan, i % kSampleCount);
  }
  CHECK(stats_of(plan).hits == 2 * kSampleCount);
}

TEST_CASE("a sample that is pinned while it is on its way along the order counts once") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 16 * kSampleBytes, .order = sequential()});
  const SampleIndex sample = plan.next_fetch().value();
  REQUIRE(plan.pin({&sample, 1}).is_pinned);
  REQUIRE(plan.place(sample));
  plan.on_fetched(sample, plan.generation(), Landing::kPushed);
  push_all(plan);
  open(plan, sample);
  CHECK(stats_of(plan).hits == 1);
}

TEST_CASE("where no order is known pins find their room, and keep it") {
  Planned planned;
  SampleIndex unseen = 0;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .next_unseen = [&]() -> std::optional<SampleIndex> {
                                  return unseen < kSampleCount ? std::optional(unseen++) : std::nullopt;
                                }});
  push_all(plan);
  REQUIRE(plan.pin(kPins).is_pinned);
  push_all(plan);
  CHECK(holds(plan, kPins));
  for (const SampleIndex sample : kPins) open(plan, sample);
  plan.let_go(kPins);
  push_all(plan);
  plan.set_order(sequential());
  push_all(plan);
  CHECK(holds(plan, kPins));
}

TEST_CASE("a pin that is more than half of the budget is refused with the figures, and nothing of it is pinned") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  REQUIRE(plan.pin(kPins).is_pinned);
  const PinOutcome refused = plan.pin(std::vector<SampleIndex>{1, 2, 20});
  CHECK_FALSE(refused.is_pinned);
  CHECK(refused.asked_bytes == 2 * kSampleBytes);
  CHECK(refused.pinned_bytes == 3 * kSampleBytes);
  CHECK(refused.pinnable_bytes == 4 * kSampleBytes);
  CHECK(stats_of(plan).pinned_samples == 3);
  CHECK(plan.pin(std::vector<SampleIndex>{1, 20}).is_pinned);

  PushPlan large = planned.plan({.budget_bytes = kSampleCount * kSampleBytes, .order = sequential()});
  CHECK(stats_of(large).pinnable_bytes == kSampleCount * kSampleBytes);  // all of them are held anyway
}

TEST_CASE("pins wait while there is less memory, and come back with it") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  REQUIRE(plan.pin(kPins).is_pinned);
  push_all(plan);
  plan.limit_budget(4 * kSampleBytes);
  while (plan.next_victim(0)) continue;
  push_all(plan);
  CHECK(stats_of(plan).held_bytes <= 4 * kSampleBytes);
  CHECK(stats_of(plan).pinned_samples == 3);
  open(plan, 0);
  open(plan, 1);
  push_all(plan);
  CHECK_FALSE(holds(plan, kPins));
  plan.limit_budget(8 * kSampleBytes);
  push_all(plan);
  CHECK(holds(plan, kPins));
}

TEST_CASE("what is pinned no more goes like others") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  REQUIRE(plan.pin(kPins).is_pinned);
  push_all(plan);
  plan.unpin(kPins);
  CHECK(stats_of(plan).pinned_bytes == 0);
  for (SampleIndex sample = 0; sample < 16; ++sample) {
    open(plan, sample);
    push_all(plan);
  }
  CHECK_FALSE(holds(plan, kPins));
}

TEST_CASE("a pinned file that changed is pushed again as it is now") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  REQUIRE(plan.pin(kPins).is_pinned);
  push_all(plan);
  plan.on_changed(25);
  CHECK_FALSE(plan.pages().is_held(25));
  push_all(plan);
  CHECK(holds(plan, kPins));
}

TEST_CASE("who takes over goes on with what was pinned, and fetches what is missing of it") {
  Planned planned;
  {
    PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
    REQUIRE(plan.pin(kPins).is_pinned);  // and it dies before it has fetched one
  }
  planned.head.takeovers = 1;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  CHECK(stats_of(plan).pinned_samples == 3);
  CHECK(stats_of(plan).pinned_held_samples == 0);
  push_all(plan);
  CHECK(holds(plan, kPins));
  PushPlan next = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  CHECK(stats_of(next).pinned_held_samples == 3);
}

}  // namespace
}  // namespace headrace::fuse::pinned_test
