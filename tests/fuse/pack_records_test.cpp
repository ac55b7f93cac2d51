// SPDX-License-Identifier: Apache-2.0
// The records of a pack as pages, and what a plan over them holds, pushes and lets go.
#include "headrace/fuse/push/pack_records.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/fuse/push/push_plan.h"

#include "fuse/planned.h"

namespace headrace::fuse {
namespace {

using cache::RecordMap;
using cache::SampleIndex;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRecords = 256;

// Rows of 8 KiB after a header: each but the last shares a page with the next one.
std::shared_ptr<const PackRecords> rows(std::uint64_t header) {
  const std::uint64_t file_bytes = header + kRecords * 2 * kPage;
  auto map = std::make_shared<RecordMap>(RecordMap::strided(file_bytes, header, 2 * kPage, kRecords).value());
  return std::make_shared<const PackRecords>(7, std::move(map));
}

OrderPosition sequential_records() {
  return test::sequential(kRecords);
}

// Fetches and pushes all that the plan names; `dropped`: what goes for it.
std::vector<SampleIndex> push_all(PushPlan& plan, std::vector<PageRange>* dropped = nullptr) {
  std::vector<SampleIndex> pushed;
  while (const auto record = plan.next_fetch()) {
    while (const auto victim = plan.next_victim(plan.pages().bytes_of(*record))) {
      if (dropped != nullptr) dropped->push_back(plan.record_pages().to_drop(*victim));
    }
    const bool placed = plan.place(*record);
    plan.on_fetched(*record, plan.generation(), placed ? Landing::kPushed : Landing::kNoRoom);
    if (placed) pushed.push_back(*record);
  }
  return pushed;
}

TEST_CASE("a record takes whole pages, and its own page is one that no other record has bytes in") {
  const auto records = rows(128);
  CHECK(records->pages_of(0).offset == 0);
  CHECK(records->pages_of(0).length == 3 * kPage);
  CHECK(records->sizes()[0] == 3 * kPage);
  CHECK(records->own_page(0) == kPage);
  CHECK(records->records_in({2 * kPage, kPage}) == std::vector<SampleIndex>{0, 1});
  CHECK(records->records_in({kPage, kPage}) == std::vector<SampleIndex>{0});
  const PageRange last = records->pages_of(kRecords - 1);
  CHECK(last.offset + last.length == records->map().file_bytes());  // not beyond its end
  CHECK(records->sizes()[kRecords - 1] == 3 * kPage);
}

TEST_CASE("a kernel with pages of 64 KiB gets whole ones of them") {
  constexpr std::uint64_t kLargePage = 16 * kPage;
  constexpr std::uint64_t kRecordBytes = 2 * kLargePage;
  auto map = std::make_shared<RecordMap>(RecordMap::strided(kPage + 8 * kRecordBytes, kPage, kRecordBytes, 8).value());
  const PackRecords records(7, std::move(map), kLargePage);
  CHECK(records.pages_of(1).offset == kRecordBytes);
  CHECK(records.pages_of(1).length == kRecordBytes + kLargePage);
  CHECK(records.pages_of(7).length == kRecordBytes + kPage);  // the file ends there
  CHECK(records.own_page(1) == kRecordBytes + kLargePage);
  CHECK(records.sizes()[1] == kRecordBytes + kLargePage);
  CHECK(records.records_in({kRecordBytes, kLargePage}) == std::vector<SampleIndex>{0, 1});
}

TEST_CASE("a record shorter than a page has none of its own") {
  auto map = std::make_shared<RecordMap>(RecordMap::strided(64 * kPage, 0, 512, 512).value());
  const PackRecords records(7, std::move(map));
  CHECK_FALSE(records.own_page(3).has_value());
  CHECK(records.records_in({0, kPage}).size() == 8);
}

TEST_CASE("records are planned along their order within the budget, whatever the catalog has") {
  test::Planned planned({1});
  PushPlan plan = planned.plan({.budget_bytes = 64 * 3 * kPage, .order = sequential_records(), .records = rows(128)});
  const std::vector<SampleIndex> first = push_all(plan);
  REQUIRE_FALSE(first.empty());
  CHECK(first.front() == 0);
  CHECK(plan.pages().held_bytes() <= plan.budget_bytes());
  for (SampleIndex record = 0; record < kRecords; record += 16) {
    plan.on_pack_read({rows(128)->own_page(record).value(), kPage});
    push_all(plan);
    CHECK(plan.pages().held_bytes() <= plan.budget_bytes());
    CHECK(test::stats_of(plan).position == record + 1);
    CHECK(plan.pages().is_held((record + 1) % kRecords));
  }
  CHECK(test::stats_of(plan).strays == 0);
}

TEST_CASE("an evicted record leaves the page that it shares with one that is held") {
  test::Planned planned({1});
  const auto records = rows(128);
  PushPlan plan = planned.plan({.budget_bytes = 64 * 3 * kPage, .order = sequential_records(), .records = records});
  push_all(plan);
  REQUIRE(plan.pages().is_held(4));
  REQUIRE(plan.pages().is_held(6));
  const PageRange both = plan.record_pages().to_drop(5);
  CHECK(both.offset == records->pages_of(5).offset + kPage);
  CHECK(both.length == kPage);
  const PageRange all = plan.record_pages().to_drop(kRecords - 1);  // nothing around it is held
  CHECK(all.length == records->pages_of(kRecords - 1).length);
}

TEST_CASE("a record that a READ brought in goes before what was pushed") {
  test::Planned planned({1});
  const auto records = rows(0);
  PushPlan plan = planned.plan({.budget_bytes = 64 * 2 * kPage, .order = sequential_records(), .records = records});
  push_all(plan);
  for (SampleIndex record = 150; record < 250; ++record) plan.on_pack_read(records->pages_of(record));
  CHECK(plan.pages().read_in_bytes() > 0);
  std::vector<SampleIndex> victims;
  while (const auto victim = plan.next_victim(2 * kPage)) victims.push_back(*victim);
  REQUIRE_FALSE(victims.empty());
  CHECK(victims.front() == 150);
  CHECK(plan.pages().read_in_bytes() <= 32 * 2 * kPage);
}

TEST_CASE("one of sixteen records has a beacon, and none where all are held") {
  test::Planned planned({1});
  PushPlan plan = planned.plan({.budget_bytes = 64 * 2 * kPage, .order = sequential_records(), .records = rows(0)});
  unsigned beacons = 0;
  for (SampleIndex record = 0; record < 160; ++record) beacons += plan.record_pages().takes_beacon(record) ? 1 : 0;
  CHECK(beacons >= 10);
  CHECK(beacons <= 20);
  plan.set_budget(2 * kRecords * 2 * kPage);
  for (SampleIndex record = 0; record < 160; ++record) CHECK_FALSE(plan.record_pages().takes_beacon(record));
}

TEST_CASE("of a pack that has changed nothing is held and nothing is pushed") {
  test::Planned planned({1});
  PushPlan plan = planned.plan({.budget_bytes = 64 * 2 * kPage, .order = sequential_records(), .records = rows(0)});
  push_all(plan);
  plan.on_pack_changed();
  CHECK(plan.pages().held_bytes() == 0);
  CHECK_FALSE(plan.next_fetch().has_value());
  plan.on_pack_read({0, kPage});
  plan.set_budget(128 * 2 * kPage);
  CHECK_FALSE(plan.next_fetch().has_value());
}

}  // namespace
}  // namespace headrace::fuse
