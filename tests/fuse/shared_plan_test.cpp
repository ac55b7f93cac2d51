// SPDX-License-Identifier: Apache-2.0
// What waits for the plan, and what does not.
#include "headrace/fuse/push/shared_plan.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "fuse/mounted.h"
#include "fuse/sized_catalog.h"

namespace headrace::fuse::shared_plan_test {
namespace {

using cache::SampleIndex;
using test::Mounted;
using test::need_fuse;
using test::read_file;

constexpr unsigned kSampleCount = 32;
constexpr std::size_t kSampleBytes = 4096;
constexpr std::chrono::seconds kPatience{60};

// Sequential. Whoever computes an epoch of it waits until it is opened.
class GatedOrder final : public cache::Order {
 public:
  explicit GatedOrder(std::uint64_t samples)
      : inner_(std::move(*cache::make_order("sequential", {.sample_count = samples}))) {}

  const std::string& spec() const override { return inner_->spec(); }
  std::uint64_t length(std::uint64_t epoch) const override { return inner_->length(epoch); }
  io::Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    io::MutexLock lock(mutex_);
    is_asked_ = true;
    changed_.notify_all();
    while (!is_open_) changed_.wait(lock);
    return inner_->epoch(epoch);
  }
  bool wait_until_asked() const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    io::MutexLock lock(mutex_);
    while (!is_asked_) {
      if (!changed_.wait_until(lock, deadline)) return is_asked_;
    }
    return true;
  }
  void open() const {
    io::MutexLock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  const std::unique_ptr<cache::Order> inner_;
  mutable io::Mutex mutex_;
  mutable io::CondVar changed_;
  mutable bool is_asked_ HEADRACE_GUARDED_BY(mutex_) = false;
  mutable bool is_open_ HEADRACE_GUARDED_BY(mutex_) = false;
};

// Opens the order when it dies, so that no case that fails leaves a thread behind.
class Gate {
 public:
  explicit Gate(std::uint64_t samples) : order(std::make_shared<GatedOrder>(samples)) {}
  ~Gate() { order->open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  const std::shared_ptr<const GatedOrder> order;
};

// Whether it ends while the order is computed.
bool ends_meanwhile(const Gate& gate, const std::function<void()>& what) {
  std::future<void> done = std::async(std::launch::async, what);
  const bool has_ended = done.wait_for(kPatience) == std::future_status::ready;
  if (!has_ended) gate.order->open();
  done.wait();
  return has_ended;
}

class Plan {
 public:
  explicit Plan(PlanListener listener = {})
      : pages_(kSampleCount),
        catalog_(std::vector<std::size_t>(kSampleCount, kSampleBytes)),
        plan_(*catalog_, {.head = &head_, .pages = pages_}, {.budget_bytes = 8 * kSampleBytes}, [] {}) {
    plan_.start(std::move(listener));
  }
  SharedPlan* operator->() { return &plan_; }
  [[nodiscard]] MountStats stats() {
    MountStats stats;
    plan_.add_stats(stats);
    return stats;
  }

 private:
  TakeoverHead head_;
  std::vector<SamplePages> pages_;
  const test::SizedCatalog catalog_;
  SharedPlan plan_;
};

TEST_CASE("who answers the kernel tells the plan and asks it without waiting for an order that is computed") {
  Plan plan;
  const Gate gate(kSampleCount);
  plan->set_order({.order = gate.order, .may_be_wrong = true});  // so that an epoch of it is computed at once
  REQUIRE(gate.order->wait_until_asked());
  bool lacks = false;
  CHECK(ends_meanwhile(gate, [&] {
    plan->on_read(5, {0, kSampleBytes});
    plan->on_open_by_read(6);
    lacks = plan->lacks(7);
  }));
  CHECK(lacks);  // nobody knows: it is taken for cold
  gate.order->open();
  const MountStats stats = plan.stats();  // of all that was told
  CHECK(stats.order == gate.order->spec());
  CHECK(stats.read_in_bytes == kSampleBytes);
  CHECK(stats.opens == 1);
  CHECK(plan->lacks(7));
}

TEST_CASE("of READs that come while the plan is busy, no more wait than there is memory for") {
  constexpr unsigned kMore = 40'000;
  Plan plan;
  const Gate gate(kSampleCount);
  plan->set_order({.order = gate.order, .may_be_wrong = true});  // so that an epoch of it is computed at once
  REQUIRE(gate.order->wait_until_asked());
  CHECK(ends_meanwhile(gate, [&] {
    for (unsigned i = 0; i < kMore; ++i) plan->on_open_by_read(3);
  }));
  gate.order->open();
  const std::uint64_t heard = plan.stats().opens;
  CHECK(heard == 32'768);
  plan->on_open_by_read(4);
  CHECK(plan.stats().opens == heard + 1);
}

TEST_CASE("whoever looks at the plan sees all that was told before, in its order") {
  Plan plan;
  for (std::uint64_t samples = 1; samples <= 1000; ++samples) {
    plan->set_budget(samples * kSampleBytes);
    REQUIRE(plan->budget_bytes() == samples * kSampleBytes);
  }
  plan->set_budget(4 * kSampleBytes);
  plan->limit_budget(2 * kSampleBytes);
  CHECK(plan.stats().budget_bytes == 2 * kSampleBytes);
  CHECK(!plan->has_changes());
}

TEST_CASE("the listener hears every open once and in its order, whoever told the plan of it") {
  std::vector<SampleIndex> heard;
  unsigned overflows = 0;
  std::promise<void> all;
  {
    Plan plan({.on_opens =
                   [&](std::span<const SampleIndex> opens) {
                     heard.insert(heard.end(), opens.begin(), opens.end());
                     if (heard.size() == 300) all.set_value();
                   },
               .on_overflow = [&] { ++overflows; }});
    for (SampleIndex i = 0; i < 100; ++i) {
      const std::vector<SampleIndex> opens = {i % 16, i % 16 + 1};
      plan->on_opens(opens);
      if (i % 3 == 0) CHECK(plan.stats().opens == 3 * i + 2);
      plan->on_open_by_read(i % 16 + 2);
      if (i % 7 == 0) plan->on_overflow();
    }
    CHECK(all.get_future().wait_for(kPatience) == std::future_status::ready);
  }
  CHECK(overflows == 15);
  REQUIRE(heard.size() == 300);
  for (std::size_t i = 0; i < heard.size(); ++i) CHECK(heard[i] == i / 3 % 16 + i % 3);
}

TEST_CASE("while an order is computed, cold files are looked up and read through the mount") {
  need_fuse();
  constexpr unsigned kFiles = 64;
  constexpr std::size_t kBytes = 50'000;
  Mounted mounted;
  mounted.write_samples(kFiles, kBytes);
  mounted.options.ram_bytes = 8 * kBytes;
  mounted.start();
  mounted.settle();
  const Gate gate(kFiles);
  mounted.mount().set_order(gate.order, 0);
  REQUIRE(gate.order->wait_until_asked());
  std::atomic<unsigned> good = 0;
  CHECK(ends_meanwhile(gate, [&] {
    for (unsigned i = 0; i < kFiles; ++i) {
      const bool is_good = read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, kBytes);
      good += is_good ? 1 : 0;
    }
  }));
  CHECK(good == kFiles);
  gate.order->open();
  CHECK(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  CHECK(mounted.mount().stats().order == gate.order->spec());
  CHECK(mounted.requests("READ") > 0);
}

}  // namespace
}  // namespace headrace::fuse::shared_plan_test
