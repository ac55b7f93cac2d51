// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order_check.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include "cache/order/golden.h"
#include "cache/order/loader_replay.h"

namespace order_check_test {

using namespace headrace::cache;
using namespace headrace::test;

namespace {

using Samples = std::vector<SampleIndex>;

constexpr std::uint64_t kN = 2000;

OrderCheck check(const std::string& spec, const Samples& opens, std::uint64_t first_epoch = 0) {
  const auto order = make_order(spec, {.sample_count = kN});
  REQUIRE(order.has_value());
  return check_order(**order, opens, {.sample_count = kN, .first_epoch = first_epoch});
}

// Two ranks of two workers each, epoch by epoch.
Samples read_epochs(const std::string& spec, std::uint64_t first, std::uint64_t end) {
  std::mt19937 random(7);
  Samples opens;
  for (std::uint64_t epoch = first; epoch < end; ++epoch) {
    std::vector<Samples> ranks;
    for (const char* rank : {",replicas=2,rank=0", ",replicas=2,rank=1"})
      ranks.push_back(epoch_of(spec + rank, kN, epoch));
    const Samples read = replay_epoch(ranks, {.batch = 16, .workers = 2}, random);
    opens.insert(opens.end(), read.begin(), read.end());
  }
  return opens;
}

std::uint64_t fitting_in(const OrderCheck& check) {
  std::uint64_t fitting = 0;
  for (const OrderCheck::Stretch& stretch : check.stretches) fitting += stretch.fitting;
  return fitting;
}

}  // namespace

TEST_CASE("order check: ranks and workers that read along the order fit it, epoch after epoch") {
  const Samples opens = read_epochs("torch-distributed:seed=3", 0, 3);
  const OrderCheck found = check("torch-distributed:seed=3", opens);
  CHECK(!found.difference);
  REQUIRE(found.stretches.size() == 3);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) CHECK(found.stretches[epoch].epoch == epoch);
  CHECK(fitting_in(found) >= opens.size() * 99 / 100);
}

TEST_CASE("order check: an epoch that was entered in its middle is found, and the one after it") {
  Samples opens = read_epochs("torch-distributed:seed=3", 5, 7);
  opens.erase(opens.begin(), opens.begin() + 1500);
  const OrderCheck found = check("torch-distributed:seed=3", opens);
  CHECK(!found.difference);
  REQUIRE(found.stretches.size() == 2);
  CHECK(found.stretches[0].epoch == 5);
  CHECK(found.stretches[0].position > 1300);
  CHECK(found.stretches[1].epoch == 6);
}

TEST_CASE("order check: where a loader goes over to another order, the first open of that is named") {
  Samples opens = read_epochs("torch-distributed:seed=3", 0, 1);
  opens.resize(900);
  const Samples other = epoch_of("torch-distributed:seed=900", kN, 0);
  opens.insert(opens.end(), other.begin(), other.end());
  const OrderCheck found = check("torch-distributed:seed=3", opens);
  REQUIRE(found.difference);
  CHECK(found.difference->open >= 900);  // the first ones may lie where the reader is by chance
  CHECK(found.difference->open < 910);
  CHECK(found.difference->opened == opens[found.difference->open]);
  REQUIRE(found.difference->position);
  CHECK(*found.difference->position < 900);
  CHECK(*found.difference->position > 700);
}

TEST_CASE("order check: an order that has nothing to do with the opens differs from the first one on") {
  const OrderCheck found = check("torch-distributed:seed=4000", read_epochs("torch-distributed:seed=3", 0, 1));
  REQUIRE(found.difference);
  CHECK(found.difference->open == 0);
  CHECK(!found.difference->expected);
  CHECK(found.stretches.empty());
}

TEST_CASE("order check: an epoch that runs twice, strays and files that are opened twice are no difference") {
  std::mt19937 random(5);
  Samples opens;
  for (int time = 0; time < 2; ++time) {
    for (const SampleIndex sample : epoch_of("torch-distributed:seed=3", kN, 0)) {
      opens.insert(opens.end(), {sample, sample});
      if (random() % 20 == 0) opens.push_back(static_cast<SampleIndex>(random() % kN));
    }
  }
  const OrderCheck found = check("torch-distributed:seed=3,set_epoch=0", opens);
  CHECK(!found.difference);
  CHECK(fitting_in(found) >= 2 * kN * 98 / 100);
}

TEST_CASE("order check: the listing is told from clips, and a few opens are judged by nobody") {
  Samples opens(kN);
  std::iota(opens.begin(), opens.end(), SampleIndex{0});
  CHECK(!check("sequential", opens).difference);
  Samples clips;
  std::mt19937 random(1);
  Samples which(kN / 8);
  std::iota(which.begin(), which.end(), SampleIndex{0});
  std::ranges::shuffle(which, random);
  for (const SampleIndex clip : which) {
    for (SampleIndex i = 0; i < 8; ++i) clips.push_back(clip * 8 + i);
  }
  CHECK(check("sequential", clips).difference);
  clips.resize(kOpensToCheck - 1);
  CHECK(!check("sequential", clips).difference);
  CHECK(check("sequential", clips).stretches.empty());
}

}  // namespace order_check_test
