// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/placement.h"

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"

#include "support/temp_dir.h"

namespace placement_test {
namespace {

using headrace::cache::Catalog;
using headrace::cache::make_order;
using headrace::cache::Order;
using headrace::cache::Placement;
using headrace::cache::SampleIndex;
using headrace::test::TempDir;
using namespace std::chrono_literals;

// The samples as listed, in each epoch. Drawing the epoch `slow` takes until `drawn` is set.
class SlowOrder final : public Order {
 public:
  SlowOrder(SampleIndex samples, std::uint64_t slow) : samples_(samples), slow_(slow) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t /*epoch*/) const override { return samples_; }
  [[nodiscard]] headrace::io::Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    if (epoch == slow_) {
      asked.set_value();
      drawn_.wait();
    }
    std::vector<SampleIndex> samples(samples_);
    std::iota(samples.begin(), samples.end(), SampleIndex{0});
    return samples;
  }

  mutable std::promise<void> asked;
  std::promise<void> drawn;

 private:
  const std::string spec_ = "slow";
  const SampleIndex samples_;
  const std::uint64_t slow_;
  std::shared_future<void> drawn_ = drawn.get_future().share();
};

// So many files in one class, each of a page.
Catalog catalog_of(const TempDir& source, SampleIndex files) {
  for (SampleIndex i = 0; i < files; ++i) source.write("class/" + std::to_string(i) + ".jpg", "x");
  auto catalog = Catalog::scan(source.path(), {});
  REQUIRE(catalog.has_value());
  REQUIRE(catalog->sample_count() == files);
  return std::move(*catalog);
}

std::vector<std::unique_ptr<Order>> three_orders(SampleIndex files) {
  std::vector<std::unique_ptr<Order>> orders;
  for (const char* spec : {"torch-random:seed=1", "torch-random:seed=2", "torch-random:seed=3"}) {
    auto order = make_order(spec, {.sample_count = files});
    REQUIRE(order.has_value());
    orders.push_back(std::move(*order));
  }
  return orders;
}

int wanted_of(const Placement& placement, SampleIndex files) {
  int wanted = 0;
  for (SampleIndex i = 0; i < files; ++i) wanted += placement.wants(0, i) ? 1 : 0;
  return wanted;
}

TEST_CASE("files of more than 4 GiB count in full when MIN chooses what a tier holds") {
  constexpr std::uint64_t kGiB = 1 << 30;
  constexpr SampleIndex kFiles = 4;
  const TempDir source;
  for (SampleIndex i = 0; i < kFiles; ++i) {
    const std::string name = "class/" + std::to_string(i) + ".jpg";
    source.write(name, "");
    std::filesystem::resize_file(source.path() / name, 100 * kGiB);
  }
  const auto catalog = Catalog::scan(source.path(), {});
  REQUIRE(catalog.has_value());
  REQUIRE(catalog->sample_count() == kFiles);
  const auto order = make_order("torch-random:seed=1", {.sample_count = kFiles});
  REQUIRE(order.has_value());
  const std::uint64_t room = 250 * kGiB;  // two of them
  Placement placement(*catalog, {room}, [](auto, auto) { return false; });
  static_cast<void>(placement.follow(**order, 0));
  static_cast<void>(placement.follow(**order, 0));  // two orders at once: MIN
  REQUIRE(placement.evicts());
  for (SampleIndex i = 0; i < kFiles; ++i) static_cast<void>(placement.on_read(i));
  CHECK(wanted_of(placement, kFiles) == 2);
}

TEST_CASE("a READ waits for no epoch that MIN draws") {
  constexpr SampleIndex kFiles = 100;
  constexpr std::uint64_t kSlowEpoch = 17;  // the first one that entering epoch 2 draws
  const TempDir source;
  const Catalog catalog = catalog_of(source, kFiles);
  const auto order = make_order("torch-random:seed=1", {.sample_count = kFiles});
  REQUIRE(order.has_value());
  SlowOrder slow(kFiles, kSlowEpoch);
  Placement placement(catalog, {std::uint64_t{kFiles} << 20}, [](auto, auto) { return false; });
  static_cast<void>(placement.follow(**order, 0));
  const Placement::JobId job = placement.follow(slow, 1);
  REQUIRE(placement.evicts());
  auto entered = std::async(std::launch::async, [&] { static_cast<void>(placement.enter(job, 2)); });
  CHECK(slow.asked.get_future().wait_for(60s) == std::future_status::ready);
  auto read = std::async(std::launch::async, [&] { static_cast<void>(placement.on_read(7)); });
  CHECK(read.wait_for(60s) == std::future_status::ready);
  slow.drawn.set_value();
  entered.wait();
  CHECK(placement.wants(0, 7));
}

TEST_CASE("a tier that holds what no order reads lets go of it when MIN begins, and keeps the rest") {
  constexpr SampleIndex kFiles = 40;
  constexpr SampleIndex kRead = 30;  // by the orders
  const TempDir source;
  const Catalog catalog = catalog_of(source, kFiles);
  const auto of_range = [&](int seed) {
    auto order = make_order("torch-subset:range=0:30,of=torch-random:seed=" + std::to_string(seed),
                            {.sample_count = kFiles, .find_sample = nullptr});
    REQUIRE(order.has_value());
    return std::move(*order);
  };
  const auto one = of_range(1);
  const auto other = of_range(2);
  Placement placement(catalog, {std::uint64_t{kFiles} * 4096}, [](auto, auto) { return true; });
  static_cast<void>(placement.follow(*one, 0));
  CHECK(placement.settle().empty());
  CHECK(placement.describe() == "never-evict: each epoch reads the same files");
  const Placement::JobId job = placement.follow(*other, 0);
  CHECK(placement.describe() == "min: several orders are read at once");
  const Placement::Evictions gone = placement.settle();
  CHECK(gone.size() == kFiles - kRead);
  for (const Placement::Eviction& each : gone) {
    CHECK(each.sample >= kRead);
    CHECK_FALSE(placement.wants(0, each.sample));
  }
  CHECK(wanted_of(placement, kFiles) == static_cast<int>(kRead));
  placement.unfollow(job);
  CHECK(placement.settle().empty());
  CHECK(placement.describe() == "never-evict: each epoch reads the same files");
}

TEST_CASE("what a tier takes in while MIN is in force without MIN's knowing is settled when a job comes") {
  constexpr SampleIndex kFiles = 40;
  constexpr int kRoom = 10;
  const TempDir source;
  const Catalog catalog = catalog_of(source, kFiles);
  const std::vector<std::unique_ptr<Order>> orders = three_orders(kFiles);
  bool is_there = false;
  Placement placement(catalog, {std::uint64_t{kRoom} * 4096}, [&](auto, auto) { return is_there; });
  static_cast<void>(placement.follow(*orders[0], 0));
  static_cast<void>(placement.follow(*orders[1], 0));
  CHECK(placement.settle().empty());
  CHECK(wanted_of(placement, kFiles) == 0);
  is_there = true;  // the tier was busy, and is free now
  static_cast<void>(placement.follow(*orders[2], 0));
  CHECK(placement.settle().size() >= static_cast<std::size_t>(kFiles) - kRoom);
  CHECK(wanted_of(placement, kFiles) == kRoom);
}

TEST_CASE("who ceases to follow takes no uses of the others along") {
  constexpr SampleIndex kFiles = 40;
  const TempDir source;
  const Catalog catalog = catalog_of(source, kFiles);
  const std::vector<std::unique_ptr<Order>> orders = three_orders(kFiles);
  const std::uint64_t room = std::uint64_t{10} * 4096;
  Placement placement(catalog, {room}, [](auto, auto) { return false; });
  std::vector<Placement::JobId> jobs;
  for (const auto& order : orders) jobs.push_back(placement.follow(*order, 0));
  for (int round = 0; round < 3; ++round) {
    for (SampleIndex i = 0; i < kFiles; ++i) static_cast<void>(placement.on_read(i));
  }
  CHECK(placement.enter(jobs[0], 1).size() <= kFiles);
  placement.unfollow(jobs[0]);
  CHECK(placement.settle().empty());  // no tier holds anything
  REQUIRE(placement.evicts());        // two are left
  for (SampleIndex i = 0; i < kFiles; ++i) static_cast<void>(placement.on_read(i));
  CHECK(wanted_of(placement, kFiles) > 0);
  CHECK(wanted_of(placement, kFiles) <= 10);
  placement.unfollow(jobs[1]);
  CHECK_FALSE(placement.evicts());
  CHECK(wanted_of(placement, kFiles) == kFiles);
}

}  // namespace

}  // namespace placement_test
