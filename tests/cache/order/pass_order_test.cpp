// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/pass_order.h"

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/temp_dir.h"

namespace headrace::cache::pass_order_test {
namespace {

using Samples = std::vector<SampleIndex>;

constexpr std::uint64_t kTrain = 100;
constexpr std::uint64_t kVal = 20;

OrderedSet set_of(const std::string& name, SampleIndex first, std::uint64_t count, const std::string& spec) {
  OrderedSet set{.name = name, .samples = Samples(count), .order = nullptr};
  std::iota(set.samples.begin(), set.samples.end(), first);
  set.order = std::move(*make_order(spec, {.sample_count = count, .find_sample = nullptr}));
  return set;
}

PassOrder train_and_val(PassOptions options = {}) {
  auto sets = std::make_shared<std::vector<OrderedSet>>();
  sets->push_back(set_of("train", 0, kTrain, "torch-distributed:seed=0"));
  sets->push_back(set_of("val", kTrain, kVal, "sequential"));
  options.sample_count = kTrain + kVal + 5;
  return {std::move(sets), options};
}

TEST_CASE("passes over the sets take turns, each with the epochs of its own order") {
  const PassOrder order = train_and_val();
  CHECK(order.spec() == "train=torch-distributed:seed=0 val=sequential");
  const auto alone = *make_order("torch-distributed:seed=0", {.sample_count = kTrain, .find_sample = nullptr});
  CHECK(order.epoch(0).value() == alone->epoch(0).value());
  CHECK(order.epoch(2).value() == alone->epoch(1).value());
  CHECK(order.length(1) == kVal);
  CHECK(order.prefix(3, 2).value() == Samples{kTrain, kTrain + 1});
  CHECK(order.pass(3).set == 1);
  CHECK(order.pass(3).epoch == 1);
  CHECK_FALSE(order.set_of(kTrain + kVal).has_value());
}

TEST_CASE("each set may go on from an epoch of its own") {
  PassOrder order = train_and_val({.next_epochs = {3, 7}});
  CHECK(order.pass(0).epoch == 3);
  CHECK(order.pass(1).epoch == 7);
  CHECK(order.pass(2).epoch == 4);
  CHECK(order.first_epoch(1) == 7);
  CHECK(order.anew(0)->pass(1).epoch == 7);
}

TEST_CASE("a reader that is in the middle of a set is followed from there, and the others are as far") {
  const auto in_train = train_and_val().anew_within(0, 5);
  const auto in_val = train_and_val().anew_within(1, 5);
  const std::vector<std::pair<std::size_t, std::uint64_t>> expected = {{0, 5}, {1, 5}, {0, 6}, {1, 6}};
  for (std::size_t i = 0; i + 1 < expected.size(); ++i) {
    CHECK(in_train->pass(i).set == expected[i].first);
    CHECK(in_train->pass(i).epoch == expected[i].second);
    CHECK(in_val->pass(i).set == expected[i + 1].first);
    CHECK(in_val->pass(i).epoch == expected[i + 1].second);
  }
}

TEST_CASE("what was seen to follow a set is expected to follow it again, and what was skipped is not counted") {
  PassOrder order = train_and_val();
  REQUIRE(order.pass(2).set == 0);
  order.on_reached(0, 2);  // val was skipped
  CHECK(order.pass(3).set == 0);
  CHECK(order.pass(3).epoch == 2);
  const std::uint64_t turned = order.turn_to(1, 0);
  CHECK(turned == 4);
  CHECK(order.pass(turned).set == 1);
  CHECK(order.pass(5).set == 0);
  CHECK(order.pass(5).epoch == 3);
}

TEST_CASE("without a sequence the largest set comes first and goes on until another is seen") {
  PassOrder order = train_and_val({.first_epoch = 7, .in_turn = false});
  CHECK(order.pass(0).set == 0);
  CHECK(order.pass(0).epoch == 7);
  CHECK(order.pass(1).set == 0);
  CHECK(order.turn_to(1, 7) == 2);
  order.note_successor(1, 0);
  order.note_successor(0, 1);
  CHECK(order.pass(3).set == 0);
  CHECK(order.pass(3).epoch == 9);
  CHECK(order.pass(4).set == 1);
}

TEST_CASE("a set that is let go has no more passes, the last one cannot be") {
  PassOrder order = train_and_val();
  CHECK(order.let_go(1));
  CHECK(order.pass(1).set == 0);
  CHECK_FALSE(order.set_of(kTrain).has_value());
  CHECK_FALSE(order.let_go(0));
}

TEST_CASE("a folder is numbered as ImageFolder numbers it, that knows nothing of what is above") {
  const test::TempDir dir;
  for (const char* path : {"train/a/1.jpg", "train/a/deep/2.jpg", "train/a-b/3.jpg", "train/none.jpg", "val/a/4.jpg"}) {
    dir.write(path, "x");
  }
  const auto catalog = Catalog::scan(dir.path(), {});
  REQUIRE(catalog.has_value());
  std::vector<std::string> paths;
  for (const SampleIndex sample : samples_below(*catalog, *catalog->find("train"))) {
    paths.push_back(catalog->path(catalog->sample_entry(sample)));
  }
  CHECK(paths == std::vector<std::string>{"train/a/1.jpg", "train/a/deep/2.jpg", "train/a-b/3.jpg"});
  CHECK(samples_below(*catalog, *catalog->find("val")).size() == 1);
}

}  // namespace
}  // namespace headrace::cache::pass_order_test
