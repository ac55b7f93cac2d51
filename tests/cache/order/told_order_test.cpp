// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/told_order.h"

#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/read_ahead.h"

namespace headrace::cache::told_order_test {
namespace {

using Samples = std::vector<SampleIndex>;

TEST_CASE("a told order has the last two epochs that were told") {
  ToldOrder order("train", {.batch = 4, .workers = 2});
  CHECK(order.spec() == "told:train");
  CHECK(order.epoch(0).error().code == io::ErrorCode::kNotFound);
  CHECK(order.add_epoch({2, 0, 1}) == 0);
  CHECK(order.add_epoch({1, 1}) == 1);
  CHECK(order.epoch(0).value() == Samples{2, 0, 1});
  CHECK(order.epoch(1).value() == Samples{1, 1});
  CHECK(order.length(1) == 2);
  CHECK(order.add_epoch({0}) == 2);
  CHECK_FALSE(order.epoch(0));
  CHECK(order.length(0) == 0);
  CHECK(order.epoch(2).value() == Samples{0});
  CHECK_FALSE(order.epoch(3));
}

TEST_CASE("read-ahead goes on with an epoch that is told later, and keeps what it holds") {
  ToldOrder order("train", {});
  order.add_epoch({3, 1, 0, 2});
  const SampleSizes sizes(std::vector<std::uint32_t>(4, 10));
  ReadAhead plan(order, sizes, {.budget_bytes = 30, .window_bytes = 10});
  Samples fetched;
  const auto fetch_all = [&] {
    while (const auto sample = plan.next_fetch()) {
      plan.on_fetched(*sample, true);
      fetched.push_back(*sample);
    }
  };
  const auto read_all = [&](const Samples& samples) {
    for (const SampleIndex sample : samples) {
      fetch_all();
      CHECK(plan.on_read(sample));
      static_cast<void>(plan.take_releases());
    }
    fetch_all();
  };
  read_all({3, 1, 0, 2});
  CHECK(fetched == Samples{3, 1, 0, 2});
  CHECK_FALSE(plan.next_fetch());

  fetched.clear();
  plan.seek(order.add_epoch({2, 0, 1, 3}), 0);
  read_all({2, 0, 1, 3});
  CHECK(fetched == Samples{2, 0});  // 3 and 1 stayed
  CHECK(plan.state().hits == 8);
  CHECK_FALSE(plan.on_read(2));  // a stray: nothing more was told
}

}  // namespace
}  // namespace headrace::cache::told_order_test
