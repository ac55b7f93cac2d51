// SPDX-License-Identifier: Apache-2.0
// The records of a pack as pages, and what a plan over them holds, pushes and lets go.
#include "headrace/fuse/push/pack_records.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/fuse/push/push_plan.h"

#include "cache/packs.h"
#include "fuse/planned.h"

namespace headrace::fuse::pack_records_test {
namespace {

using cache::RecordMap;
using cache::SampleIndex;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRecords = 256;
constexpr cache::EntryId kPack = 7;

// Rows of 8 KiB after a header: each but the last shares a page with the next one.
std::shared_ptr<const PackRecords> rows(std::uint64_t header) {
  const std::uint64_t file_bytes = header + kRecords * 2 * kPage;
  return std::make_shared<const PackRecords>(
      headrace::test::set_of(kPack, RecordMap::strided(file_bytes, header, 2 * kPage, kRecords).value()));
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
  CHECK(records->records_in(kPack, {2 * kPage, kPage}) == std::vector<SampleIndex>{0, 1});
  CHECK(records->records_in(kPack, {kPage, kPage}) == std::vector<SampleIndex>{0});
  const PageRange last = records->pages_of(kRecords - 1);
  CHECK(last.offset + last.length == records->set().packs()[0].map.file_bytes());  // not beyond its end
  CHECK(records->sizes()[kRecords - 1] == 3 * kPage);
}

TEST_CASE("a kernel with pages of 64 KiB gets whole ones of them") {
  constexpr std::uint64_t kLargePage = 16 * kPage;
  constexpr std::uint64_t kRecordBytes = 2 * kLargePage;
  const PackRecords records(
      headrace::test::set_of(kPack, RecordMap::strided(kPage + 8 * kRecordBytes, kPage, kRecordBytes, 8).value()), 0,
      kLargePage);
  CHECK(records.pages_of(1).offset == kRecordBytes);
  CHECK(records.pages_of(1).length == kRecordBytes + kLargePage);
  CHECK(records.pages_of(7).length == kRecordBytes + kPage);  // the file ends there
  CHECK(records.own_page(1) == kRecordBytes + kLargePage);
  CHECK(records.sizes()[1] == kRecordBytes + kLargePage);
  CHECK(records.records_in(kPack, {kRecordBytes, kLargePage}) == std::vector<SampleIndex>{0, 1});
}

TEST_CASE("a record shorter than a page has none of its own") {
  const PackRecords records(headrace::test::set_of(kPack, RecordMap::strided(64 * kPage, 0, 512, 512).value()));
  CHECK_FALSE(records.own_page(3).has_value());
  CHECK(records.records_in(kPack, {0, kPage}).size() == 8);
}

TEST_CASE("records are planned along their order within the budget, whatever the catalog has") {
  test::Planned planned({1});
  PushPlan plan = planned.plan({.budget_bytes = 64 * 3 * kPage, .order = sequential_records(), .records = rows(128)});
  const std::vector<SampleIndex> first = push_all(plan);
  REQUIRE_FALSE(first.empty());
  CHECK(first.front() == 0);
  CHECK(plan.pages().held_bytes() <= plan.budget_bytes());
  for (SampleIndex record = 0; record < kRecords; record += 16) {
    plan.on_pack_read(kPack, {rows(128)->own_page(record).value(), kPage});
    push_all(plan);
    CHECK(plan.pages().held_bytes() <= plan.budget_bytes());
    CHECK(test::stats_of(plan).position == record + 1);
    CHECK(plan.pages().is_held((record + 1) % kRecords));
  }
  CHECK(test::stats_of(plan).strays == 0);
}

TEST_CASE("a reader whose workers are said to be further apart than what is held finds the next record held") {
  test::Planned planned({1});
  auto order = cache::make_order("sequential:batch=2048,workers=1", {.sample_count = kRecords});
  REQUIRE(order.has_value());
  PushPlan plan = planned.plan(
      {.budget_bytes = 64 * 3 * kPage, .order = OrderPosition{.order = std::move(*order)}, .records = rows(128)});
  push_all(plan);
  for (SampleIndex record = 0; record < kRecords; record += 16) {
    plan.on_pack_read(kPack, {rows(128)->own_page(record).value(), kPage});
    push_all(plan);
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
  for (SampleIndex record = 150; record < 250; ++record) plan.on_pack_read(kPack, records->pages_of(record));
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
  plan.on_pack_changed(kPack);
  CHECK(plan.pages().held_bytes() == 0);
  CHECK_FALSE(plan.next_fetch().has_value());
  CHECK(plan.on_pack_read(kPack, {0, kPage}).empty());
  plan.set_budget(128 * 2 * kPage);
  CHECK_FALSE(plan.next_fetch().has_value());
}

// Four rows of two pages each in the first pack, then four in the second.
std::shared_ptr<const PackRecords> two_packs() {
  std::vector<cache::Pack> packs;
  packs.push_back({.entry = kPack, .map = RecordMap::strided(8 * kPage, 0, 2 * kPage, 4).value()});
  packs.push_back({.entry = kPack + 1, .map = RecordMap::strided(9 * kPage, kPage, 2 * kPage, 4).value()});
  return std::make_shared<const PackRecords>(
      std::make_shared<const cache::RecordSet>(cache::RecordSet::make(std::move(packs)).value()));
}

TEST_CASE("records of the second pack lie in its file") {
  const auto records = two_packs();
  CHECK(records->entry_of(3) == kPack);
  CHECK(records->entry_of(4) == kPack + 1);
  CHECK(records->pages_of(4).offset == kPage);
  CHECK(records->records_in(kPack, {0, 9 * kPage}) == std::vector<SampleIndex>{0, 1, 2, 3});
  CHECK(records->records_in(kPack + 1, {kPage, kPage}) == std::vector<SampleIndex>{4});
  CHECK(records->records_in(kPack + 2, {kPage, kPage}).empty());
  CHECK(records->is_pack(kPack + 1));
  CHECK_FALSE(records->is_pack(kPack + 2));
}

TEST_CASE("of two packs the one that has changed is read plainly, and the other goes on") {
  test::Planned planned({1});
  const auto records = two_packs();
  PushPlan plan = planned.plan({.budget_bytes = 64 * kPage, .order = test::sequential(8), .records = records});
  CHECK(push_all(plan).size() == 8);
  plan.on_pack_changed(kPack);
  CHECK(plan.pages().held_samples() == 4);
  CHECK_FALSE(plan.next_fetch().has_value());
  CHECK(plan.on_pack_read(kPack, {0, 2 * kPage}).empty());
  for (SampleIndex record = 4; record < 8; ++record) CHECK(plan.pages().is_held(record));
  plan.on_pack_changed(kPack + 1);
  CHECK(plan.pages().held_samples() == 0);
  CHECK(plan.order() == nullptr);
}

TEST_CASE("while no order is known a READ tells which record is read, and nothing is pushed") {
  test::Planned planned({1});
  const auto records = rows(128);
  PushPlan plan = planned.plan({.budget_bytes = 64 * 3 * kPage, .records = records});
  CHECK_FALSE(plan.next_fetch().has_value());
  CHECK(plan.on_pack_read(kPack, records->pages_of(9)) == std::vector<SampleIndex>{9});
  CHECK(plan.on_pack_read(kPack, records->pages_of(9)).empty());  // the same read goes on
  plan.set_order(sequential_records());
  CHECK(push_all(plan).size() > 10);
}

TEST_CASE("what was read before the order was found is not told once more") {
  test::Planned planned({1});
  const auto records = rows(0);
  PushPlan plan = planned.plan({.budget_bytes = 64 * 2 * kPage, .records = records});
  OrderPosition found = sequential_records();
  for (SampleIndex record = 0; record < 150; ++record) found.read_already.push_back(record);
  plan.set_order(found);
  CHECK(plan.on_pack_read(kPack, records->pages_of(150)) == std::vector<SampleIndex>{150});
  CHECK(plan.on_pack_read(kPack, records->pages_of(152)) == std::vector<SampleIndex>{151, 152});
  // Nor is what was read after it was found, and before it was followed.
  plan.set_order({});
  CHECK(plan.on_pack_read(kPack, records->pages_of(200)) == std::vector<SampleIndex>{200});
  found.read_already.assign({198, 199});
  found.position = 198;
  plan.set_order(found);
  CHECK(plan.on_pack_read(kPack, records->pages_of(202)) == std::vector<SampleIndex>{201, 202});
  CHECK(test::stats_of(plan).strays == 0);
}

TEST_CASE("along an order the records that the reader has passed are told, and where it reads otherwise") {
  test::Planned planned({1});
  const auto records = rows(0);
  PushPlan plan = planned.plan({.budget_bytes = 64 * 2 * kPage, .order = sequential_records(), .records = records});
  push_all(plan);
  CHECK(plan.on_pack_read(kPack, records->pages_of(2)) == std::vector<SampleIndex>{0, 1, 2});
  // That far ahead, the next READ has to show it.
  CHECK(plan.on_pack_read(kPack, records->pages_of(200)) == std::vector<SampleIndex>{200});
}

// Rows as above, and an index of which the first range lies in the header and the second after the last row.
std::shared_ptr<const PackRecords> rows_with_index(std::uint64_t index_bytes_max) {
  constexpr std::uint64_t kHeader = 128;
  constexpr std::uint64_t kEnd = kHeader + kRecords * 2 * kPage;
  RecordMap map(kEnd + 3 * kPage);
  for (std::uint64_t row = 0; row < kRecords; ++row) REQUIRE(map.add(kHeader + row * 2 * kPage, 2 * kPage));
  map.set_index({{.offset = kEnd + kPage, .length = 100}, {.offset = 0, .length = 64}});
  return std::make_shared<const PackRecords>(headrace::test::set_of(kPack, std::move(map)), index_bytes_max);
}

TEST_CASE("pages of an index are numbered after the records, where they are few") {
  const auto records = rows_with_index(2 * kPage);
  CHECK(records->count() == kRecords + 2);
  CHECK_FALSE(records->is_index(kRecords - 1));
  CHECK(records->is_index(kRecords));
  CHECK(records->entry_of(kRecords + 1) == kPack);
  CHECK(records->pages_of(kRecords).offset == 0);
  CHECK(records->pages_of(kRecords).length == kPage);
  CHECK(records->pages_of(kRecords + 1).offset == (kRecords * 2 + 1) * kPage);
  CHECK(records->sizes().size() == kRecords + 2);
  CHECK(records->records_in(kPack, {0, kPage}) == std::vector<SampleIndex>{0, kRecords});
  CHECK(records->records_in(kPack, {kPage, kPage}) == std::vector<SampleIndex>{0});
  CHECK_FALSE(records->own_page(kRecords).has_value());
  CHECK(rows_with_index(2 * kPage - 1)->count() == kRecords);
}

TEST_CASE("an index is pushed first, also while no order is known, and stays when records beside it go") {
  test::Planned planned({1});
  const auto records = rows_with_index(8 * kPage);
  PushPlan plan = planned.plan({.budget_bytes = 64 * 3 * kPage, .records = records});
  CHECK(push_all(plan) == std::vector<SampleIndex>{kRecords, kRecords + 1});
  plan.set_order(sequential_records());
  CHECK_FALSE(push_all(plan).empty());
  CHECK_FALSE(plan.record_pages().takes_beacon(kRecords));
  for (SampleIndex record = 0; record < kRecords; ++record) {
    CHECK(plan.on_pack_read(kPack, {0, 64}).size() <= 1);  // the header alone tells little
    plan.on_pack_read(kPack, {records->own_page(record).value(), kPage});
    push_all(plan);
    REQUIRE(plan.pages().is_held(kRecords));
    REQUIRE(plan.pages().is_held(kRecords + 1));
    REQUIRE(plan.pages().held_bytes() <= plan.budget_bytes());
  }
  CHECK(plan.record_pages().to_drop(0).offset == kPage);  // the first page is the header's, too
  CHECK(test::stats_of(plan).pinned_samples == 0);
  plan.on_pack_changed(kPack);
  CHECK(plan.pages().held_bytes() == 0);
  CHECK_FALSE(plan.next_fetch().has_value());
}

}  // namespace
}  // namespace headrace::fuse::pack_records_test
