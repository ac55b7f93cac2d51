// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/memory/ram_tier.h"

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/memory/memory_queue.h"
#include "headrace/cache/policy.h"
#include "headrace/io/mutex.h"
#include "headrace/io/timer_thread.h"

namespace ram_tier_test {
namespace {

using headrace::cache::ChunkKey;
using headrace::cache::EntryId;
using headrace::cache::ghost_slots_for;
using headrace::cache::Holding;
using headrace::cache::make_policy;
using headrace::cache::MemoryQueue;
using headrace::cache::MemoryRequest;
using headrace::cache::PolicyKind;
using headrace::cache::RamShard;
using headrace::cache::RamTier;
using headrace::cache::TierKind;
using headrace::cache::View;
using headrace::cache::Waiter;
using headrace::io::Buffer;
using headrace::io::ErrorCode;
using headrace::io::MutexLock;
using headrace::io::TimerThread;

constexpr std::uint64_t kPage = 4096;

struct Fixture {
  explicit Fixture(std::uint64_t pages) : tier(pages * kPage, [this] { space_told += 1; }) {}

  // Fetches one page of content for `entry`; false when the budget forbids.
  bool insert(EntryId entry, bool keep = false) {
    if (!tier.reserve(kPage, true)) return false;
    auto fresh = std::make_unique<Holding>(tier, ChunkKey{entry, 0});
    fresh->keep = keep;
    Waiter waiter;
    Holding* holding = tier.claim(std::move(fresh), waiter).holding;
    holding->cost_bytes = kPage;
    holding->buffer = *Buffer::allocate(kPage);
    holding->data = holding->buffer.data();
    holding->size = kPage;
    Waiter* first = tier.publish(*holding);
    REQUIRE(first == &waiter);
    tier.unpin(*holding);  // the waiter's pin
    tier.unpin(*holding);  // the fetch's pin
    return true;
  }
  View pinned(EntryId entry) {
    Holding* hit = tier.pin({entry, 0}, false);
    return hit == nullptr ? View{} : hit->view(TierKind::kRam, 0, UINT64_MAX);
  }
  bool holds(EntryId entry) { return tier.contains({entry, 0}); }

  int space_told = 0;
  RamTier tier;
};

TEST_CASE("the budget is never exceeded, and what was least wanted makes room") {
  Fixture fixture(8);
  for (EntryId entry = 0; entry < 100; ++entry) {
    REQUIRE(fixture.insert(entry));
    CHECK(fixture.tier.used_bytes() <= 8 * kPage);
  }
  CHECK(fixture.tier.used_bytes() == 8 * kPage);
  CHECK(fixture.tier.stats().evictions == 92);
  CHECK(fixture.tier.stats().samples == 8);
}

TEST_CASE("pinned content is not evicted, and its bytes count") {
  Fixture fixture(4);
  std::vector<View> views;
  for (EntryId entry = 0; entry < 4; ++entry) {
    REQUIRE(fixture.insert(entry));
    views.push_back(fixture.pinned(entry));
    REQUIRE(views.back().bytes().size() == kPage);
  }
  CHECK_FALSE(fixture.insert(9));
  CHECK(fixture.tier.used_bytes() == 4 * kPage);
  views.erase(views.begin() + 2);
  CHECK(fixture.insert(9));
  CHECK_FALSE(fixture.holds(2));
  CHECK(fixture.holds(0));
}

TEST_CASE("kept content goes last, and not at all for a read ahead") {
  Fixture fixture(4);
  for (EntryId entry = 0; entry < 3; ++entry) REQUIRE(fixture.insert(entry, true));
  for (EntryId entry = 10; entry < 20; ++entry) REQUIRE(fixture.insert(entry));
  for (EntryId entry = 0; entry < 3; ++entry) CHECK(fixture.holds(entry));
  CHECK(fixture.tier.reserve(kPage, false));
  CHECK_FALSE(fixture.tier.reserve(kPage, false));
  CHECK(fixture.tier.reserve(kPage, true));
  fixture.tier.unreserve(2 * kPage);
}

TEST_CASE("what is read again survives a scan") {
  constexpr EntryId kHot = 512;  // of 1024 places, so that every shard has room for its part
  Fixture fixture(std::uint64_t{2} * kHot);
  for (EntryId entry = 0; entry < kHot; ++entry) REQUIRE(fixture.insert(entry));
  for (EntryId entry = 0; entry < kHot; ++entry) static_cast<void>(fixture.pinned(entry));
  for (EntryId entry = 10'000; entry < 10'000 + 8 * kHot; ++entry) REQUIRE(fixture.insert(entry));
  EntryId survivors = 0;
  for (EntryId entry = 0; entry < kHot; ++entry) survivors += fixture.holds(entry) ? 1 : 0;
  CHECK(survivors > kHot * 95 / 100);
}

TEST_CASE("a shard hits and evicts exactly what the simulator's S3-FIFO does") {
  constexpr std::size_t kSamples = 500;
  constexpr std::uint64_t kBudget = 100'000;
  std::mt19937_64 random(5);
  std::vector<std::uint32_t> sizes(kSamples);
  for (std::uint32_t& size : sizes) size = static_cast<std::uint32_t>(100 + random() % 1000);
  const auto policy = make_policy(PolicyKind::kS3Fifo, {.capacity_bytes = kBudget, .sizes = sizes});

  RamTier nobody(kBudget, [] {});
  RamShard shard(64, ghost_slots_for(kBudget));
  std::vector<std::unique_ptr<Holding>> holdings(kSamples);
  std::uint64_t used = 0;
  MutexLock lock(shard.mutex);
  for (int i = 0; i < 20'000; ++i) {
    const auto sample = static_cast<EntryId>(
        std::min({random(), random(), random()}, [](auto a, auto b) { return a % kSamples < b % kSamples; }) %
        kSamples);
    CAPTURE(i);
    Holding* const hit = shard.find({sample, 0});
    REQUIRE(policy->read({.sample = sample}) == (hit != nullptr));
    if (hit != nullptr) {
      shard.touch(*hit, false);
      continue;
    }
    while (used + sizes[sample] > kBudget) {
      Holding* const gone = shard.evict(false);
      REQUIRE(gone != nullptr);
      used -= gone->cost_bytes;
      holdings[gone->key.entry].reset();
    }
    holdings[sample] = std::make_unique<Holding>(nobody, ChunkKey{sample, 0});
    holdings[sample]->cost_bytes = sizes[sample];
    used += sizes[sample];
    shard.insert(*holdings[sample]);
    shard.enqueue(*holdings[sample]);
    REQUIRE(policy->used_bytes() == used);
  }
}

TEST_CASE("a dropped holding goes with its last view") {
  Fixture fixture(4);
  REQUIRE(fixture.insert(1));
  View view = fixture.pinned(1);
  CHECK(fixture.tier.drop({1, 0}));
  CHECK(fixture.tier.used_bytes() == kPage);
  view.reset();
  CHECK(fixture.tier.used_bytes() == 0);
  CHECK_FALSE(fixture.tier.drop({1, 0}));
}

TEST_CASE("a forgotten holding is not found again but stays good for its views") {
  Fixture fixture(4);
  REQUIRE(fixture.insert(1));
  View view = fixture.pinned(1);
  fixture.tier.forget({1, 0});
  CHECK_FALSE(fixture.holds(1));
  CHECK(view.bytes().size() == kPage);
  REQUIRE(fixture.insert(1));
  view.reset();
  CHECK(fixture.tier.used_bytes() == kPage);
}

TEST_CASE("a smaller budget is kept to at once, save for what is pinned, and a larger one holds more") {
  Fixture fixture(8);
  for (EntryId entry = 0; entry < 8; ++entry) REQUIRE(fixture.insert(entry, entry < 4));
  View first = fixture.pinned(0);
  View second = fixture.pinned(1);
  fixture.tier.set_budget(kPage);
  CHECK(fixture.tier.used_bytes() == 2 * kPage);
  CHECK_FALSE(fixture.insert(20));
  first.reset();
  CHECK(fixture.tier.used_bytes() == kPage);
  CHECK(fixture.holds(1));
  fixture.tier.set_budget(16 * kPage);
  for (EntryId entry = 20; entry < 35; ++entry) REQUIRE(fixture.insert(entry));
  CHECK(fixture.tier.used_bytes() == 16 * kPage);
  second.reset();
}

TEST_CASE("with a budget of 0 nothing stays once it is unpinned") {
  Fixture fixture(0);
  for (EntryId entry = 0; entry < 10; ++entry) REQUIRE(fixture.insert(entry));
  CHECK(fixture.tier.used_bytes() == 0);
}

TEST_CASE("whoever waits for space hears of it") {
  Fixture fixture(1);
  REQUIRE(fixture.insert(1));
  View view = fixture.pinned(1);
  fixture.tier.want_space(true);
  CHECK(fixture.space_told == 0);
  view.reset();
  CHECK(fixture.space_told == 1);
}

struct Request : MemoryRequest {
  using MemoryRequest::MemoryRequest;
  void granted() override { outcome = 1; }
  void denied(headrace::io::Error error) override {
    outcome = -1;
    code = error.code;
  }
  int outcome = 0;
  ErrorCode code = ErrorCode::kSystem;
};

struct QueueFixture : Fixture {
  explicit QueueFixture(std::uint64_t pages) : Fixture(pages) {}
  void run_posted() {
    while (!posted.empty()) {
      auto task = std::move(posted.front());
      posted.erase(posted.begin());
      task();
    }
  }
  std::vector<std::function<void()>> posted;
  TimerThread timers{"test-timer"};
  MemoryQueue queue{tier, timers, [this](std::function<void()> task) { posted.push_back(std::move(task)); }};
};

TEST_CASE("requests are granted in their order, those for now before those ahead") {
  QueueFixture fixture(2);
  Request first(2 * kPage, false);
  fixture.queue.request(first);
  CHECK(first.outcome == 1);
  Request ahead(kPage, true);
  Request now(kPage, false);
  Request second_now(kPage, false);
  fixture.queue.request(ahead);
  fixture.queue.request(now);
  fixture.queue.request(second_now);
  fixture.run_posted();
  CHECK(ahead.outcome + now.outcome + second_now.outcome == 0);

  fixture.tier.unreserve(kPage);
  fixture.queue.pump_soon();
  fixture.run_posted();
  CHECK(now.outcome == 1);
  CHECK(second_now.outcome == 0);
  CHECK(ahead.outcome == 0);

  fixture.queue.close();
  CHECK(ahead.outcome == -1);
  CHECK(ahead.code == ErrorCode::kCancelled);
  CHECK(second_now.outcome == -1);
  fixture.tier.unreserve(2 * kPage);
}

struct AheadForAWhile final : Request {
  explicit AheadForAWhile(std::uint64_t bytes) : Request(bytes, true) {}
  [[nodiscard]] bool ahead() const override { return !wanted_now; }
  bool wanted_now = false;
};

TEST_CASE("a read ahead that somebody waits for takes its turn among those for now, and the place of what is kept") {
  QueueFixture fixture(3);
  for (EntryId entry = 0; entry < 3; ++entry) REQUIRE(fixture.insert(entry, true));
  AheadForAWhile first(kPage);
  AheadForAWhile second(kPage);
  fixture.queue.request(first);
  fixture.queue.request(second);
  fixture.run_posted();
  CHECK(first.outcome + second.outcome == 0);
  second.wanted_now = true;
  fixture.queue.hurry();
  fixture.run_posted();
  CHECK(first.outcome == 0);
  CHECK(second.outcome == 1);
  fixture.queue.close();
  fixture.tier.unreserve(kPage);
}

TEST_CASE("a read for now does not wait for those ahead that wait for memory") {
  QueueFixture fixture(2);
  for (EntryId entry = 0; entry < 2; ++entry) REQUIRE(fixture.insert(entry, true));
  Request ahead(kPage, true);
  fixture.queue.request(ahead);
  CHECK_FALSE(fixture.queue.try_now(kPage, true));
  CHECK(fixture.queue.try_now(kPage, false));
  CHECK(ahead.outcome == 0);
  fixture.queue.close();
  fixture.tier.unreserve(kPage);
}

// A queue that is patient for a second only, and counts how often it looks whether anything moves.
class ImpatientQueue : Fixture {
 public:
  ImpatientQueue() : Fixture(1) {}
  ~ImpatientQueue() {
    queue.close();
    timers.stop();
    tier.unreserve(kPage);
  }
  // Returns after so many tasks of the queue, or at the deadline.
  void run(int tasks) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (int done = 0; done < tasks;) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::vector<std::function<void()>> taken;
      {
        headrace::io::MutexLock lock(mutex_);
        taken.swap(posted_);
      }
      for (const auto& task : taken) task();
      done += static_cast<int>(taken.size());
      if (taken.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  headrace::io::Mutex mutex_;
  std::vector<std::function<void()>> posted_ HEADRACE_GUARDED_BY(mutex_);
  TimerThread timers{"test-timer"};

 public:
  MemoryQueue queue{tier, timers,
                    [this](std::function<void()> task) {
                      headrace::io::MutexLock lock(mutex_);
                      posted_.push_back(std::move(task));
                    },
                    std::chrono::seconds(1)};
};

TEST_CASE("while a copy is written to a disk nobody is denied memory, and after that who waits for nothing is") {
  ImpatientQueue waiting;
  REQUIRE(waiting.queue.try_now(kPage, false));
  Request request(kPage, false);
  waiting.queue.on_write_begun();
  waiting.queue.request(request);
  waiting.run(4);  // the pump, and three looks, a second apart
  CHECK(request.outcome == 0);
  waiting.queue.on_write_ended();
  while (request.outcome == 0) waiting.run(1);
  CHECK(request.outcome == -1);
  CHECK(request.code == ErrorCode::kBusy);
}

TEST_CASE("what waits and no longer fits into a smaller budget is refused") {
  QueueFixture fixture(4);
  View held;
  REQUIRE(fixture.insert(1));
  held = fixture.pinned(1);
  Request large(4 * kPage, false);
  fixture.queue.request(large);
  fixture.run_posted();
  CHECK(large.outcome == 0);
  fixture.tier.set_budget(2 * kPage);
  fixture.queue.pump_soon();
  fixture.run_posted();
  CHECK(large.outcome == -1);
  CHECK(large.code == ErrorCode::kNoSpace);
}

std::unique_ptr<Holding> fresh_holding(RamTier& tier, bool has_memory, bool lent = false) {
  auto fresh = std::make_unique<Holding>(tier, ChunkKey{7, 0});
  fresh->has_memory = has_memory;
  fresh->lent = lent;
  return fresh;
}

TEST_CASE("who has memory does not wait for a fetch that has none") {
  using Outcome = RamTier::Claim::Outcome;
  Fixture fixture(4);
  Waiter first_waiter;
  const RamTier::Claim first = fixture.tier.claim(fresh_holding(fixture.tier, false), first_waiter);
  REQUIRE(first.outcome == Outcome::kOwner);

  auto hurried = fresh_holding(fixture.tier, false);
  hurried->wanted_now = true;
  Waiter second_waiter;
  const RamTier::Claim second = fixture.tier.claim(std::move(hurried), second_waiter);
  CHECK(second.outcome == Outcome::kWaiting);
  CHECK(second.in_line);
  CHECK(first.holding->wanted_now);

  Waiter third_waiter;
  const RamTier::Claim third = fixture.tier.claim(fresh_holding(fixture.tier, true), third_waiter);
  CHECK(third.outcome == Outcome::kOwner);
  CHECK(third.holding != first.holding);

  first.holding->has_memory = true;
  Waiter fourth_waiter;
  const RamTier::Claim fourth = fixture.tier.claim(fresh_holding(fixture.tier, true, true), fourth_waiter);
  CHECK(fourth.outcome == Outcome::kWaiting);
  CHECK_FALSE(fourth.in_line);

  for (Holding* holding : {third.holding, first.holding}) {
    static_cast<void>(fixture.tier.abandon(*holding));
    fixture.tier.unpin(*holding);
  }
}

TEST_CASE("what is fetched in lent memory is found by nobody else") {
  Fixture fixture(4);
  Waiter waiter;
  const RamTier::Claim claim = fixture.tier.claim(fresh_holding(fixture.tier, true, true), waiter);
  CHECK(claim.outcome == RamTier::Claim::Outcome::kOwner);
  CHECK_FALSE(fixture.holds(7));
  static_cast<void>(fixture.tier.abandon(*claim.holding));
  fixture.tier.unpin(*claim.holding);
}

TEST_CASE("a request larger than the budget is refused at once") {
  QueueFixture fixture(2);
  Request request(3 * kPage, false);
  fixture.queue.request(request);
  CHECK(request.outcome == -1);
  CHECK(request.code == ErrorCode::kNoSpace);
}

}  // namespace

}  // namespace ram_tier_test
