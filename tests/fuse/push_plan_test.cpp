// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/push_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/told_order.h"

#include "planned.h"

namespace headrace::fuse::push_plan_test {
namespace {

using namespace test;

constexpr PageRange kFromStart{0, 4096};
constexpr PageRange kLater{4096, 4096};

TEST_CASE("what fits the budget is pushed along the order, and never more is held") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  const std::vector<SampleIndex> first = push_all(plan);
  REQUIRE(first.size() >= 5);
  for (SampleIndex i = 0; i < first.size(); ++i) CHECK(first[i] == i);
  for (SampleIndex sample = 0; sample < kSampleCount; ++sample) {
    open(plan, sample);
    push_all(plan);
    CHECK(stats_of(plan).held_bytes <= 8 * kSampleBytes);
  }
  CHECK(stats_of(plan).hits == kSampleCount);
  CHECK(stats_of(plan).evicted_samples > 0);
}

TEST_CASE("of few large samples nearly all that the budget holds is pushed") {
  constexpr std::size_t kLarge = 3 << 19;
  Planned planned(std::vector<std::size_t>(80, kLarge));
  PushPlan plan = planned.plan({.budget_bytes = 40 * kLarge, .order = sequential(80)});
  CHECK(push_all(plan).size() == 36);  // the others may be open
}

TEST_CASE("a sample that was opened stays until its room is needed") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  const std::size_t pushed = push_all(plan).size();
  open(plan, 0);
  CHECK(stats_of(plan).held_samples == pushed);
  CHECK_FALSE(plan.next_victim(0));
}

TEST_CASE("what is evicted is looked at again before it is pushed again, once") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  push_all(plan);
  for (SampleIndex sample = 0; sample < kSampleCount; ++sample) {
    open(plan, sample);
    push_all(plan);
  }
  REQUIRE(stats_of(plan).evicted_samples > 0);
  SampleIndex stale = 0;
  while (!planned.pages[stale].stale) ++stale;
  CHECK(plan.take_stale(stale));
  CHECK_FALSE(plan.take_stale(stale));
}

TEST_CASE("a fetch that fails gives its room back") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  const SampleIndex before = plan.next_fetch().value();
  plan.on_fetched(before, plan.generation(), Landing::kFailedBeforePlace);
  const SampleIndex after = plan.next_fetch().value();
  REQUIRE(plan.place(after));
  plan.on_fetched(after, plan.generation(), Landing::kFailedAfterPlace);
  CHECK(stats_of(plan).held_bytes == 0);
  CHECK(stats_of(plan).push_failures == 2);
  CHECK(push_all(plan).size() >= 5);
}

TEST_CASE("a fetch that finds no room any more is no failure") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  const SampleIndex sample = plan.next_fetch().value();
  plan.set_budget(kSampleBytes / 2);
  REQUIRE_FALSE(plan.place(sample));
  plan.on_fetched(sample, plan.generation(), Landing::kNoRoom);
  CHECK(stats_of(plan).push_failures == 0);
  plan.set_budget(8 * kSampleBytes);
  CHECK(push_all(plan).size() >= 5);
}

TEST_CASE("a fetch for an earlier order may arrive under a later one") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  const SampleIndex sample = plan.next_fetch().value();
  const std::uint64_t generation = plan.generation();
  plan.set_order({.order = std::move(*cache::make_order("torch-distributed:seed=1", {.sample_count = kSampleCount}))});
  REQUIRE(plan.place(sample));
  plan.on_fetched(sample, generation, Landing::kPushed);
  push_all(plan);
  CHECK(stats_of(plan).held_bytes <= 8 * kSampleBytes);
}

TEST_CASE("what is on its way when the order changes is not fetched a second time") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount / 2 * kSampleBytes, .order = sequential()});
  const SampleIndex first = plan.next_fetch().value();
  const std::uint64_t generation = plan.generation();
  plan.set_order({.order = std::move(*cache::make_order("sequential:batch=2", {.sample_count = kSampleCount}))});
  REQUIRE(plan.generation() != generation);
  const std::vector<SampleIndex> others = push_all(plan);
  CHECK(std::ranges::find(others, first) == others.end());
  REQUIRE(plan.place(first));
  plan.on_fetched(first, generation, Landing::kPushed);
  open(plan, first);
  CHECK(stats_of(plan).hits == 1);
  CHECK(stats_of(plan).held_samples == others.size() + 1);
}

TEST_CASE("what is held when the order changes stays, but for the room of what comes next") {
  constexpr unsigned kMany = 400;
  constexpr unsigned kHeldMost = 160;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  const auto order = [](const char* spec) {
    return OrderPosition{.order = std::move(*cache::make_order(spec, {.sample_count = kMany}))};
  };
  PushPlan plan = planned.plan({.budget_bytes = kHeldMost * kSampleBytes, .order = order("torch-distributed:seed=1")});
  const std::size_t held = push_all(plan).size();
  REQUIRE(held > kHeldMost / 2);
  plan.set_order(order("torch-distributed:seed=2"));
  const std::vector<SampleIndex> next = push_all(plan);
  CHECK(!next.empty());
  CHECK(next.size() <= kHeldMost / 4);  // else three of five of those that are held
  CHECK(stats_of(plan).held_bytes <= kHeldMost * kSampleBytes);
}

TEST_CASE("what is held of samples that the new order never reads makes room") {
  constexpr unsigned kMany = 400;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  PushPlan plan = planned.plan({.budget_bytes = 100 * kSampleBytes, .order = sequential(kMany)});
  push_all(plan);  // 0 to 99 and no others
  const char* const kOthers = "torch-subset:range=200:400,of=sequential";
  plan.set_order({.order = std::move(*cache::make_order(kOthers, {.sample_count = kMany}))});
  CHECK(push_all(plan).size() > 60);
}

TEST_CASE("a plan over what another process left fetches nothing that is there already") {
  Planned planned;
  std::size_t held = 0;
  {
    PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
    held = push_all(plan).size();
    open(plan, 0);
  }
  ++planned.head.takeovers;
  PushPlan successor = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
  CHECK(stats_of(successor).held_samples == held);
  CHECK(stats_of(successor).position == 1);
  for (const SampleIndex sample : push_all(successor)) CHECK(sample >= held);
}

TEST_CASE("without an order unseen samples are pushed and opened ones make room") {
  Planned planned;
  SampleIndex unseen = 10;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .next_unseen = [&]() -> std::optional<SampleIndex> {
                                  if (unseen == kSampleCount) return std::nullopt;
                                  return unseen++;
                                }});
  const std::vector<SampleIndex> first = push_all(plan);
  REQUIRE_FALSE(first.empty());
  CHECK(first.front() == 10);
  CHECK(push_all(plan).empty());
  open(plan, first.front());
  CHECK(push_all(plan).size() == 1);
  CHECK(stats_of(plan).hits == 1);
}

// So reading ahead of an order that nobody knows cannot cost the source more than it spares, but for the first filling.
TEST_CASE("without an order no more is pushed than the budget holds and its hits make room for") {
  constexpr std::uint64_t kBudget = 20;
  Planned planned;
  std::mt19937 random(5);
  const auto any = [&] { return static_cast<SampleIndex>(random() % kSampleCount); };
  PushPlan plan = planned.plan({.budget_bytes = kBudget * kSampleBytes, .next_unseen = [&] { return any(); }});
  std::size_t pushed = push_all(plan).size();
  for (int round = 0; round < 20'000; ++round) {
    const SampleIndex sample = any();
    const bool is_held = plan.pages().is_held(sample);
    open(plan, sample);
    if (!is_held) plan.on_read(sample, kFromStart);
    pushed += push_all(plan).size();
    REQUIRE(pushed <= kBudget + stats_of(plan).hits);
  }
  CHECK(pushed > kBudget);
}

TEST_CASE("what was fetched for an order that is lost stays until it is opened, or the budget shrinks") {
  Planned planned;
  PushPlan plan =
      planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential(), .next_unseen = [unseen = 20]() mutable {
                      return unseen == kSampleCount ? std::nullopt : std::optional<SampleIndex>(unseen++);
                    }});
  const std::vector<SampleIndex> held = push_all(plan);
  REQUIRE(held.size() >= 5);
  plan.set_order({});
  const std::size_t room = push_all(plan).size();
  CHECK(room <= 1);
  for (const SampleIndex sample : held) CHECK(plan.pages().is_held(sample));
  open(plan, held.back());
  CHECK(push_all(plan).size() == 1);
  plan.set_budget(4 * kSampleBytes);
  while (plan.next_victim(0)) continue;
  CHECK(stats_of(plan).held_bytes <= 4 * kSampleBytes);
}

TEST_CASE("a smaller budget is reached by evicting also while no order is known and nothing is opened") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount * kSampleBytes, .next_unseen = [unseen = 0U]() mutable {
                                  return unseen == kSampleCount ? std::nullopt : std::optional<SampleIndex>(unseen++);
                                }});
  CHECK(push_all(plan).size() == kSampleCount);
  plan.set_budget(4 * kSampleBytes);
  while (plan.next_victim(0)) continue;
  CHECK(stats_of(plan).held_bytes <= 4 * kSampleBytes);
}

TEST_CASE("what an epoch of an unknown order did not read makes room for what it reads") {
  Planned planned;
  SampleIndex unseen = 0;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .next_unseen = [&]() -> std::optional<SampleIndex> {
                                  return unseen == kSampleCount ? std::nullopt : std::optional(unseen++);
                                }});
  const std::vector<SampleIndex> first = push_all(plan);
  REQUIRE(first.size() >= 4);
  CHECK(push_all(plan).empty());
  plan.let_go(std::span(first).first(3));
  CHECK(push_all(plan).size() == 3);
}

TEST_CASE("a smaller budget is reached by evicting, a larger one by pushing") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount * kSampleBytes, .order = sequential()});
  CHECK(push_all(plan).size() == kSampleCount);
  plan.set_budget(10 * kSampleBytes);
  CHECK(plan.pages().must_evict());
  while (plan.next_victim(0)) continue;
  CHECK(stats_of(plan).held_bytes <= 10 * kSampleBytes);
  plan.set_budget(kSampleCount * kSampleBytes);
  push_all(plan);
  CHECK(stats_of(plan).held_samples == kSampleCount);
}

// The copies that a plan holds, and how it came to them.
struct Memory {
  std::vector<bool> has = std::vector<bool>(kSampleCount);
  unsigned found = 0;    // fetches of what was there
  unsigned dropped = 0;  // to make room
};

void drop_from(Memory& memory, PushPlan& plan) {
  while (const auto gone = plan.next_to_drop()) {
    REQUIRE(memory.has[*gone]);
    memory.has[*gone] = false;
    ++memory.dropped;
  }
}

// Fetches and pushes all that the plan names, and holds copies of what it says.
void push_and_copy(PushPlan& plan, Memory& memory) {
  while (const auto sample = plan.next_fetch()) {
    memory.found += memory.has[*sample] ? 1 : 0;
    if (plan.hold_copy(*sample)) memory.has[*sample] = true;
    drop_from(memory, plan);
    while (plan.next_victim(plan.pages().bytes_of(*sample))) continue;
    REQUIRE(plan.place(*sample));
    plan.on_fetched(*sample, plan.generation(), Landing::kPushed);
    drop_from(memory, plan);
    const MountStats stats = stats_of(plan);
    CHECK(stats.held_bytes + stats.copies_bytes <= plan.budget_bytes());
  }
}

// How many fetches found a copy of their sample.
unsigned read_epoch(PushPlan& plan, Memory& memory) {
  const unsigned found_before = memory.found;
  const std::vector<SampleIndex> epoch = plan.order()->epoch(plan.epoch()).value();
  for (const SampleIndex sample : epoch) {
    open(plan, sample);
    push_and_copy(plan, memory);
  }
  return memory.found - found_before;
}

TEST_CASE("where the kernel drops pages most of the budget holds copies, which are pushed again before each use") {
  Planned planned;
  constexpr std::uint64_t kBudget = 24 * kSampleBytes;
  PushPlan plan = planned.plan({.budget_bytes = kBudget, .order = sequential()});
  push_all(plan);
  REQUIRE(plan.copies_limit() == 0);
  REQUIRE(plan.on_pages_dropped());
  while (plan.next_victim(0)) continue;
  CHECK(plan.copies_limit() == kBudget - kBudget / 8);
  Memory memory;
  push_and_copy(plan, memory);
  read_epoch(plan, memory);
  const MountStats after_one = stats_of(plan);
  CHECK(after_one.copied_samples >= 10);  // 21 samples' room; a record takes two pages of it
  CHECK(read_epoch(plan, memory) == after_one.copied_samples);
  CHECK(stats_of(plan).copied_samples == after_one.copied_samples);
  CHECK(stats_of(plan).hits - after_one.hits == kSampleCount);

  SUBCASE("a smaller budget lets go of a part") {
    plan.set_budget(kBudget / 2);
    while (plan.next_victim(0)) continue;
    drop_from(memory, plan);
    CHECK(stats_of(plan).copies_bytes <= plan.copies_limit());
    CHECK(std::count(memory.has.begin(), memory.has.end(), true) ==
          static_cast<std::ptrdiff_t>(stats_of(plan).copied_samples));
  }
  SUBCASE("the page cache's part ends at a 64th") {
    for (int i = 0; i < 3; ++i) CHECK(plan.on_pages_dropped());
    CHECK_FALSE(plan.on_pages_dropped());
    while (plan.next_victim(0)) continue;
    CHECK(plan.copies_limit() == kBudget - kBudget / 64);
  }
}

TEST_CASE("a copy is held of a sample that lost pages, where the budget has room beside all samples") {
  Planned planned;
  constexpr std::uint64_t kAll = kSampleCount * kSampleBytes;
  PushPlan plan = planned.plan({.budget_bytes = 3 * kAll, .order = sequential()});
  push_all(plan);
  CHECK(plan.copies_limit() == 0);
  CHECK_FALSE(plan.copies().must_fetch());
  plan.on_read(3, kLater);
  CHECK(plan.copies().must_fetch());
  CHECK(plan.next_to_copy() == 3);
  CHECK_FALSE(plan.next_to_copy());
  CHECK(plan.copies_limit() == 2 * kAll);
  CHECK(stats_of(plan).lost_samples == 0);

  SUBCASE("once") {
    plan.on_fetched(3, plan.generation(), Landing::kCopyHeld);
    plan.on_read(3, kFromStart);
    CHECK_FALSE(plan.next_to_copy());
    CHECK(stats_of(plan).lost_samples == 1);
    CHECK(stats_of(plan).copied_samples == 1);
    CHECK(stats_of(plan).held_samples == kSampleCount);
    CHECK(stats_of(plan).pushed_samples == kSampleCount);
  }
  SUBCASE("again when it could not be fetched") {
    plan.on_fetched(3, plan.generation(), Landing::kCopyFailed);
    CHECK(stats_of(plan).copies_bytes == 0);
    plan.on_read(3, kFromStart);
    CHECK(plan.next_to_copy() == 3);
  }
  SUBCASE("and no budget is moved for all of them") {
    for (SampleIndex sample = 0; sample < kSampleCount; ++sample) plan.on_read(sample, kFromStart);
    CHECK(stats_of(plan).copied_samples == kSampleCount);
    CHECK_FALSE(plan.on_pages_dropped());
    CHECK_FALSE(plan.next_victim(0));
    CHECK_FALSE(plan.next_fetch());
  }
  SUBCASE("not when it had to make way meanwhile") {
    plan.on_read(4, kFromStart);
    plan.set_budget(kAll);
    while (plan.next_to_drop()) continue;
    CHECK_FALSE(plan.next_to_copy());
    CHECK(stats_of(plan).copied_samples == 0);
  }
  SUBCASE("not under memory pressure, which takes the copies back") {
    plan.limit_budget(3 * kAll - 1);
    CHECK(plan.next_to_drop() == 3);
    plan.on_read(4, kFromStart);
    CHECK_FALSE(plan.next_to_copy());
    plan.limit_budget(3 * kAll);
    plan.on_read(4, kFromStart);
    CHECK(plan.next_to_copy() == 4);
  }
  SUBCASE("as it is after a change, from then on") {
    plan.on_changed(3);
    CHECK(stats_of(plan).copied_samples == 0);
    push_all(plan);
    plan.on_read(3, kFromStart);
    CHECK(plan.next_to_copy() == 3);
  }
  SUBCASE("and so is what is pushed from then on") {
    CHECK(plan.hold_copy(4));
    CHECK(stats_of(plan).copied_samples == 2);
  }
}

TEST_CASE("where the budget does not hold all samples twice, copies are held only of those that lost pages") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount * kSampleBytes * 3 / 2, .order = sequential()});
  push_all(plan);
  plan.on_read(3, kLater);
  CHECK(plan.next_to_copy() == 3);
  CHECK_FALSE(plan.hold_copy(4));
  CHECK(stats_of(plan).copied_samples == 1);
}

TEST_CASE("a budget that was moved while it was small comes back when it holds all samples twice again") {
  Planned planned;
  constexpr std::uint64_t kAll = kSampleCount * kSampleBytes;
  PushPlan plan = planned.plan({.budget_bytes = 4 * kAll, .order = sequential()});
  push_all(plan);
  plan.limit_budget(kAll);
  REQUIRE(plan.on_pages_dropped());
  while (plan.next_victim(0)) continue;
  CHECK(stats_of(plan).held_bytes < kAll);
  plan.limit_budget(4 * kAll);
  CHECK_FALSE(plan.on_pages_dropped());
  push_all(plan);
  CHECK(stats_of(plan).held_bytes == kAll);
}

TEST_CASE("where the daemon cannot hold copies of a good part of the samples, a budget of any size is moved") {
  const auto may_move = [](std::size_t small, std::size_t large) {
    std::vector<std::size_t> sizes(small, std::size_t{1} << 20);
    sizes.insert(sizes.end(), large, std::size_t{5} << 20);
    Planned planned(sizes);
    PushPlan plan = planned.plan({.budget_bytes = std::uint64_t{1} << 40, .order = sequential(sizes.size())});
    return plan.on_pages_dropped();
  };
  CHECK_FALSE(may_move(8, 0));
  CHECK(may_move(8, 1));
}

TEST_CASE("no copy is held of a sample that lost pages where there is no memory for it") {
  Planned planned;
  constexpr std::uint64_t kAll = kSampleCount * kSampleBytes;
  PushPlanOptions options{.budget_bytes = kAll, .order = sequential()};
  SUBCASE("in the budget") {}
  SUBCASE("in the daemon") {
    options.budget_bytes = 3 * kAll;
    options.can_copy = false;
  }
  PushPlan plan = planned.plan(options);
  push_all(plan);
  plan.on_read(3, kFromStart);
  CHECK_FALSE(plan.next_to_copy());
  CHECK(plan.copies_limit() == 0);
}

// Payloads that take so many pages with their trailer.
constexpr std::size_t pages(std::size_t count) {
  return count * 4096 - 200;
}

// Small samples and ones of four times their size in turn.
std::vector<std::size_t> small_and_large(std::size_t count) {
  std::vector<std::size_t> sizes(count, pages(4));
  for (std::size_t i = 0; i < count; i += 2) sizes[i] = pages(1);
  return sizes;
}

PushPlanOptions half_of(const std::vector<std::size_t>& sizes, OrderPosition order) {
  return {.budget_bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}) / 2, .order = std::move(order)};
}

bool all_small_are_in(const Memory& memory) {
  for (std::size_t i = 0; i < memory.has.size(); i += 2) {
    if (!memory.has[i]) return false;
  }
  return true;
}

TEST_CASE("copies are held of small samples in the place of large ones") {
  constexpr std::size_t kCount = 256;
  const std::vector<std::size_t> sizes = small_and_large(kCount);
  Planned planned(sizes);
  PushPlan plan = planned.plan(half_of(sizes, sequential(kCount)));
  REQUIRE(plan.on_pages_dropped());
  Memory memory{.has = std::vector<bool>(kCount)};
  push_and_copy(plan, memory);
  read_epoch(plan, memory);
  CHECK(all_small_are_in(memory));
  CHECK(stats_of(plan).copied_samples > kCount / 2 + 30);  // what is left goes to large ones
  CHECK(memory.dropped > 0);

  SUBCASE("and then nothing is exchanged any more") {
    const unsigned dropped = memory.dropped;
    const std::uint64_t copied = stats_of(plan).copied_samples;
    CHECK(read_epoch(plan, memory) == copied);
    CHECK(read_epoch(plan, memory) == copied);
    CHECK(memory.dropped == dropped);
  }
  SUBCASE("a smaller budget lets go of the large ones first") {
    plan.set_budget(plan.budget_bytes() * 3 / 4);
    while (plan.next_victim(0)) continue;
    drop_from(memory, plan);
    CHECK(stats_of(plan).copies_bytes <= plan.copies_limit());
    CHECK(all_small_are_in(memory));
  }
}

TEST_CASE("copies are held of small samples first where each epoch leaves others out") {
  constexpr std::size_t kCount = 256;
  const std::vector<std::size_t> sizes = small_and_large(kCount);
  Planned planned(sizes);
  auto rank = cache::make_order("torch-distributed:seed=5,replicas=2,rank=1", {.sample_count = kCount});
  PushPlan plan = planned.plan(half_of(sizes, {.order = std::move(rank.value())}));
  REQUIRE(plan.on_pages_dropped());
  Memory memory{.has = std::vector<bool>(kCount)};
  push_and_copy(plan, memory);
  for (int epoch = 0; epoch < 12; ++epoch) read_epoch(plan, memory);
  CHECK(all_small_are_in(memory));
}

TEST_CASE("among samples of nearly one size none takes the place of another") {
  constexpr std::size_t kCount = 128;
  std::vector<std::size_t> sizes(kCount);
  for (std::size_t i = 0; i < kCount; ++i) sizes[i] = pages(20 - i * 3 / kCount);
  Planned planned(sizes);
  PushPlan plan = planned.plan(half_of(sizes, sequential(kCount)));
  REQUIRE(plan.on_pages_dropped());
  Memory memory{.has = std::vector<bool>(kCount)};
  push_and_copy(plan, memory);
  for (int epoch = 0; epoch < 2; ++epoch) read_epoch(plan, memory);
  CHECK(stats_of(plan).copied_samples > kCount / 3);
  CHECK(memory.dropped == 0);
}

TEST_CASE("no copy is counted of a sample whose fetch fails") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 24 * kSampleBytes, .order = sequential()});
  REQUIRE(plan.on_pages_dropped());
  const auto sample = plan.next_fetch();
  REQUIRE(sample);
  REQUIRE(plan.hold_copy(*sample));
  plan.on_fetched(*sample, plan.generation(), Landing::kFailedBeforePlace);
  CHECK(stats_of(plan).copies_bytes == 0);
}

TEST_CASE("losses count when they are many among the opens") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount * kSampleBytes, .order = sequential()});
  push_all(plan);
  for (SampleIndex sample = 0; sample < 20; ++sample) {
    open(plan, sample);
    plan.on_read(sample, kFromStart);
  }
  CHECK(plan.take_losses());
  CHECK_FALSE(plan.take_losses());
}

TEST_CASE("losses of a slow reader count together, and few among many opens do not") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount * kSampleBytes, .order = sequential()});
  push_all(plan);
  const auto read_and_lose_one_of = [&](SampleIndex opens) {
    for (SampleIndex i = 0; i < opens; ++i) open(plan, i % kSampleCount);
    plan.on_read(0, kFromStart);
  };
  for (int loss = 1; loss < 16; ++loss) {
    read_and_lose_one_of(20);
    CHECK_FALSE(plan.take_losses());
  }
  read_and_lose_one_of(20);
  CHECK(plan.take_losses());
  for (int loss = 0; loss < 40; ++loss) {
    read_and_lose_one_of(50);
    CHECK_FALSE(plan.take_losses());
  }
}

TEST_CASE("a READ for a sample on its way to the page cache is not a loss") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount * kSampleBytes, .order = sequential()});
  const SampleIndex sample = plan.next_fetch().value();
  plan.on_read(sample, kFromStart);
  REQUIRE(plan.place(sample));
  plan.on_read(sample, kFromStart);
  CHECK(stats_of(plan).lost_samples == 0);
  plan.on_fetched(sample, plan.generation(), Landing::kPushed);
  plan.on_read(sample, kFromStart);
  CHECK(stats_of(plan).lost_samples == 1);
}

// All that is evicted now.
std::vector<SampleIndex> victims(PushPlan& plan) {
  std::vector<SampleIndex> gone;
  while (const auto victim = plan.next_victim(0)) gone.push_back(*victim);
  CHECK_FALSE(plan.pages().must_evict());
  return gone;
}

TEST_CASE("a file that was changed on purpose is no loss, and is pushed again") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 3 * kSampleBytes * kSampleCount, .order = sequential()});
  push_all(plan);
  plan.on_changed(3);
  CHECK(stats_of(plan).held_samples == kSampleCount - 1);
  plan.on_read(3, kFromStart);
  CHECK(stats_of(plan).lost_samples == 0);
  CHECK_FALSE(plan.next_to_copy());
  CHECK(push_all(plan) == std::vector<SampleIndex>{3});
  CHECK(plan.take_stale(3));
  CHECK(stats_of(plan).held_samples == kSampleCount);
  CHECK(stats_of(plan).read_in_bytes == 0);
}

TEST_CASE("what READs bring in counts, and the oldest of it goes first") {
  constexpr unsigned kCount = 100;
  Planned planned(std::vector<std::size_t>(kCount, kSampleBytes));
  auto nothing_unseen = []() -> std::optional<SampleIndex> { return std::nullopt; };
  PushPlan plan = planned.plan({.budget_bytes = 40 * kSampleBytes, .next_unseen = nothing_unseen});
  std::vector<SampleIndex> gone;
  for (SampleIndex sample = 0; sample < kCount; ++sample) {
    plan.on_read(sample, kFromStart);
    plan.on_read(sample, kFromStart);  // more READs for the same file
    for (const SampleIndex victim : victims(plan)) gone.push_back(victim);
    CHECK(stats_of(plan).read_in_bytes == (sample + 1 - gone.size()) * kSampleBytes);
  }
  REQUIRE(gone.size() == kCount - 40);
  for (SampleIndex i = 0; i < gone.size(); ++i) CHECK(gone[i] == i);
  CHECK(plan.take_stale(0));

  plan.set_budget(10 * kSampleBytes);
  CHECK(victims(plan).size() == 8);  // the last 32 stay
  planned.head.takeovers = 1;
  CHECK(stats_of(planned.plan({})).read_in_bytes == 32 * kSampleBytes);
}

TEST_CASE("without an order what was evicted, or has changed, comes back when the memory is to be filled") {
  Planned planned;
  auto nothing_unseen = []() -> std::optional<SampleIndex> { return std::nullopt; };
  PushPlan plan = planned.plan({.budget_bytes = 2 * kSampleCount * kSampleBytes, .next_unseen = nothing_unseen});
  CHECK(push_all(plan).size() == kSampleCount);
  open(plan, 3);
  plan.on_changed(5);
  plan.on_changed(6);
  CHECK(push_all(plan).empty());
  CHECK(plan.progress().missing_samples == 2);
  plan.fill();
  CHECK(push_all(plan) == std::vector<SampleIndex>{5, 6});
  CHECK(plan.progress().missing_samples == 0);
  plan.on_changed(7);
  CHECK(push_all(plan).empty());  // nobody asked for it

  PushPlan alone = planned.plan({.budget_bytes = 2 * kSampleCount * kSampleBytes});
  alone.fill();  // also where no order is looked for
  CHECK(alone.progress().missing_samples == kSampleCount - stats_of(alone).held_samples);
}

TEST_CASE("an open of a file whose pages a READ left is a hit, as long as they are there") {
  Planned planned;
  auto nothing_unseen = []() -> std::optional<SampleIndex> { return std::nullopt; };
  PushPlan plan = planned.plan({.budget_bytes = 16 * kSampleBytes, .next_unseen = nothing_unseen});
  open(plan, 0);  // so that nothing is pushed
  plan.on_read(20, kFromStart);
  CHECK(stats_of(plan).hits == 0);
  open(plan, 20);
  CHECK(stats_of(plan).hits == 1);
  plan.on_changed(20);
  open(plan, 20);
  CHECK(stats_of(plan).hits == 1);
}

TEST_CASE("a sample that a READ brought in is pushed, and counts once") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = kSampleCount * kSampleBytes, .order = sequential()});
  plan.on_read(3, kFromStart);
  CHECK(stats_of(plan).read_in_bytes == kSampleBytes);
  CHECK(push_all(plan).size() == kSampleCount);
  CHECK(stats_of(plan).read_in_bytes == 0);
  CHECK(stats_of(plan).held_bytes == kSampleCount * kSampleBytes);
}

TEST_CASE("without a budget it is the kernel's to say what READs leave behind") {
  Planned planned;
  PushPlan plan = planned.plan({});
  for (SampleIndex sample = 0; sample < kSampleCount; ++sample) plan.on_read(sample, kFromStart);
  CHECK(stats_of(plan).read_in_bytes == 0);
}

TEST_CASE("files of 4 GiB and more are pushed along an order as others are") {
  constexpr std::size_t kLarge = 5ULL << 30;
  Planned planned({kLarge, kLarge, kLarge});
  PushPlan plan = planned.plan({.budget_bytes = 3 * kLarge, .order = sequential(3)});
  CHECK(push_all(plan) == std::vector<SampleIndex>{0, 1, 2});
  CHECK(plan.pages().held_bytes() == 3 * kLarge);
  CHECK(stats_of(plan).pushed_bytes == 3 * kLarge);
}

// A told order over all samples, backwards: no one reads so by chance.
std::shared_ptr<cache::ToldOrder> backwards(unsigned first = kSampleCount) {
  auto order = std::make_shared<cache::ToldOrder>("train", cache::WorkerLayout{});
  std::vector<SampleIndex> samples(first);
  std::iota(samples.rbegin(), samples.rend(), SampleIndex{0});
  order->add_epoch(std::move(samples));
  return order;
}

TEST_CASE("an order that is told further keeps what is held") {
  Planned planned;
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes});
  const auto order = backwards();
  plan.set_order({.order = order, .may_be_wrong = true});
  const std::uint64_t generation = plan.generation();
  for (SampleIndex sample = kSampleCount; sample-- > 0;) {
    push_all(plan);
    open(plan, sample);
  }
  push_all(plan);
  const std::uint64_t pushed = stats_of(plan).pushed_samples;
  std::vector<SampleIndex> again = order->epoch(0).value();
  std::reverse(again.begin(), again.end());
  const std::uint64_t epoch = order->add_epoch(again);
  plan.set_order({.order = order, .epoch = epoch, .may_be_wrong = true});
  for (const SampleIndex sample : again) {
    push_all(plan);
    open(plan, sample);
  }
  CHECK(plan.generation() == generation);
  CHECK(stats_of(plan).epoch == 1);
  CHECK(stats_of(plan).hits == 2 * kSampleCount);
  CHECK(stats_of(plan).pushed_samples - pushed <= kSampleCount - 6);  // of the eight two are the window
}

TEST_CASE("a told order is given up after 40 strays within 64 opens, and not before") {
  constexpr unsigned kMany = 2000;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes});
  plan.set_order({.order = backwards(kMany), .may_be_wrong = true});
  SampleIndex stray = 0;
  for (unsigned i = 0; i < 39; ++i) open(plan, stray += 37);
  CHECK_FALSE(plan.take_contradiction());
  CHECK(stats_of(plan).order == "told:train");
  open(plan, stray += 37);
  CHECK(plan.take_contradiction());
  CHECK_FALSE(plan.take_contradiction());
  CHECK(stats_of(plan).order.empty());
  CHECK(stats_of(plan).orders_given_up == 1);
}

// A job of two nodes whose order was given as that of one: each reads every other sample.
std::uint64_t read_every_other(PushPlan& plan, unsigned count, FetchedFrom from) {
  std::uint64_t pushed = 0;
  for (SampleIndex sample = 0; sample < count; sample += 2) {
    pushed += push_all(plan, from).size();
    open(plan, sample);
  }
  return pushed;
}

TEST_CASE("reading ahead of which half is in vain stops until another order is known, and pins are fetched still") {
  constexpr unsigned kMany = 4000;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  PushPlan plan = planned.plan({.budget_bytes = 100 * kSampleBytes, .order = sequential(kMany)});
  read_every_other(plan, kMany, FetchedFrom::kSource);
  CHECK(stats_of(plan).read_ahead_pauses >= 1);
  while (plan.paused_opens() == 0) read_every_other(plan, 100, FetchedFrom::kSource);
  CHECK(read_every_other(plan, 100, FetchedFrom::kSource) == 0);
  const SampleIndex pinned = kMany - 1;
  CHECK(plan.pin({&pinned, 1}).is_pinned);
  CHECK(push_all(plan) == std::vector{pinned});
  REQUIRE(plan.paused_opens() > 0);
  plan.set_order({.order = backwards(kMany)});
  CHECK(plan.paused_opens() == 0);
  CHECK_FALSE(push_all(plan, FetchedFrom::kSource).empty());
  plan.set_order({});
  CHECK(plan.paused_opens() > 0);
}

TEST_CASE("reading ahead of which half is in vain goes on where a tier has it all") {
  constexpr unsigned kMany = 4000;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  PushPlan plan = planned.plan({.budget_bytes = 100 * kSampleBytes, .order = sequential(kMany)});
  CHECK(read_every_other(plan, kMany, FetchedFrom::kTier) > kMany / 4);
  CHECK(stats_of(plan).read_ahead_pauses == 0);
}

TEST_CASE("opens of what a told order does not read do not contradict it") {
  constexpr unsigned kMany = 4000;
  Planned planned(std::vector<std::size_t>(kMany, kSampleBytes));
  PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes});
  plan.set_order({.order = backwards(2000), .may_be_wrong = true});
  for (SampleIndex other = 2000; other < kMany; ++other) open(plan, other);
  CHECK(stats_of(plan).order == "told:train");
}

}  // namespace
}  // namespace headrace::fuse::push_plan_test
