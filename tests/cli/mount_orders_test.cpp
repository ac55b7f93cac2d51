// SPDX-License-Identifier: Apache-2.0
// Tests which orders a process of a mount takes over from the one before.
#include "headrace/cli/commands/mount_orders.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "headrace/cache/order_book.h"

#include "support/temp_dir.h"

namespace headrace::cli::mount_orders_test {
namespace {

constexpr unsigned kSamples = 8;

// Follows whatever it is told.
class Follower final : public cache::OrderFollower {
 public:
  void set_order(const cache::OrderPosition& order) override { static_cast<void>(order); }
  void let_go(std::span<const cache::SampleIndex> samples) override { static_cast<void>(samples); }
  Finding take_finding() override { return {}; }
};

struct Succession {
  Succession() {
    for (unsigned i = 0; i < kSamples; ++i) source.write(fmt::format("{}.jpg", i), "x");
    catalog.emplace(cache::Catalog::scan(source.path(), {}).value());
  }
  // Returns what a process that begins now is given.
  cache::OrderCandidates begin() {
    auto orders = mount_orders(plan, kept, *catalog, -1, fallbacks);
    REQUIRE_MESSAGE(orders.has_value(), orders.error().message());
    return std::move(*orders);
  }
  [[nodiscard]] static std::string first(const cache::OrderCandidates& orders) {
    return orders.given.empty() ? "" : orders.given.front()->spec();
  }

  test::TempDir source;
  std::optional<cache::Catalog> catalog;
  MountPlan plan;
  KeptSettings kept = KeptSettings::make().value();
  std::vector<std::string> fallbacks;
};

TEST_CASE("a process begins with what the mount was given, unless another order was set") {
  Succession mount;
  mount.plan.orders = {"sequential"};
  CHECK(mount.begin().learn);
  CHECK(Succession::first(mount.begin()) == "sequential");
  REQUIRE(mount.kept.keep_orders({"torch-distributed:seed=1"}));
  CHECK(Succession::first(mount.begin()) == "torch-distributed:seed=1");
  REQUIRE(mount.kept.keep_orders({"auto"}));
  CHECK(Succession::first(mount.begin()) == "");
  CHECK(mount.begin().learn);
  mount.plan.orders = {""};
  CHECK_FALSE(mount.begin().learn);
}

TEST_CASE("a process that cannot open what was set goes by what the mount was given, and says so") {
  Succession mount;
  mount.plan.orders = {"sequential"};
  REQUIRE(mount.kept.keep_orders({"file:/nowhere"}));
  CHECK(Succession::first(mount.begin()) == "sequential");
  REQUIRE(mount.fallbacks.size() == 1);
  CHECK(mount.fallbacks.front().starts_with("the order that was set is not one of what is there now: "));
  mount.plan.orders = {"file:/nowhere"};
  CHECK_FALSE(mount_orders(mount.plan, mount.kept, *mount.catalog, -1, mount.fallbacks));  // nobody reads yet
}

TEST_CASE("a process begins with what the one before found, until somebody sets an order") {
  Succession mount;
  mount.plan.orders = {"sequential"};
  const cache::OrderCandidates first = mount.begin();
  const auto found = cache::make_order("torch-distributed:seed=0", {.sample_count = kSamples}).value();
  first.on_found(found.get(), "small seed");
  const cache::OrderCandidates second = mount.begin();
  CHECK(Succession::first(second) == found->spec());
  CHECK(second.found_by == "small seed");

  bool follows_before = false;
  Follower follower;
  cache::OrderBook book(second, {.sample_count = kSamples, .search_all_seeds = false}, follows_before);
  book.begin(follower);
  book.set({.order = second.given.front(), .may_be_wrong = true});
  const cache::OrderCandidates third = mount.begin();
  CHECK(Succession::first(third) == "sequential");
  CHECK(third.found_by == "");
}

}  // namespace
}  // namespace headrace::cli::mount_orders_test
