// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/record_set.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/catalog.h"
#include "headrace/cache/record_order.h"

#include "cache/made_packs.h"
#include "cache/packs.h"

namespace headrace::cache::record_set_test {
namespace {

constexpr std::uint64_t kPage = 4096;

Pack rows(EntryId entry, std::uint64_t first, std::uint64_t bytes, std::uint64_t count) {
  return {.entry = entry, .map = RecordMap::strided(first + bytes * count, first, bytes, count).value()};
}

// Chunks of `per_record` rows; the last one is not full.
Pack chunks(EntryId entry, std::uint64_t rows, std::uint64_t per_record) {
  const std::uint64_t count = (rows + per_record - 1) / per_record;
  Pack pack = {.entry = entry, .map = RecordMap::strided(count * kPage, 0, kPage, count).value()};
  pack.map.set_rows(rows, per_record);
  return pack;
}

TEST_CASE("the records of several packs are one sequence") {
  std::vector<Pack> packs;
  packs.push_back(rows(7, 128, 100, 5));
  packs.push_back(rows(9, 0, 50, 0));  // an empty one has no number
  packs.push_back(rows(3, 10, 4096, 2));
  const RecordSet set = RecordSet::make(std::move(packs)).value();
  CHECK(set.count() == 7);
  CHECK(set.rows() == 7);
  CHECK(set.packs().size() == 2);
  CHECK(set.entry(0) == 7);
  CHECK(set.entry(4) == 7);
  CHECK(set.entry(5) == 3);
  CHECK(set.extent(4).offset == 528);
  CHECK(set.extent(6).offset == 10 + 4096);
  CHECK(set.first_record(1) == 5);
  CHECK(set.find_pack(3) == 1);
  CHECK_FALSE(set.find_pack(9).has_value());
  CHECK(set.content_sizes().counts() == std::vector<std::uint32_t>{100, 100, 100, 100, 100, 4096, 4096});
  CHECK(set.sizes_in_pages(kPage).counts() == std::vector<std::uint32_t>{1, 1, 1, 1, 1, 2, 2});
}

TEST_CASE("rows of packs whose records hold several are found in their record") {
  std::vector<Pack> packs;
  packs.push_back(chunks(1, 10, 4));
  packs.push_back(chunks(2, 5, 2));
  const auto set = std::make_shared<const RecordSet>(RecordSet::make(std::move(packs)).value());
  CHECK(set->count() == 6);
  CHECK(set->rows() == 15);
  CHECK(set->has_shared_rows());
  CHECK(set->record_of_row(9) == 2);
  CHECK(set->record_of_row(10) == 3);
  CHECK(set->record_of_row(14) == 5);
  const auto order = make_record_order("sequential", set, true).value();
  CHECK(order->epoch(0).value() == std::vector<SampleIndex>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("packs without a record, or with too many, are no sequence") {
  std::vector<Pack> packs;
  CHECK_FALSE(RecordSet::make({}).has_value());
  packs.push_back(rows(1, 0, 8, 0));
  CHECK_FALSE(RecordSet::make(std::move(packs)).has_value());
  std::vector<Pack> large;
  large.push_back(rows(1, 0, 1, kRecordsMax));
  large.push_back(rows(2, 0, 1, 1));
  const auto set = RecordSet::make(std::move(large));
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().code == io::ErrorCode::kUnsupported);
}

std::shared_ptr<const RecordSet> open_set(const test::Packs& packs) {
  const Catalog catalog = Catalog::scan_fd(packs.folder(), {.listing = ListingRule::kSorted}).value();
  auto set = open_record_set(packs.folder(), catalog, "auto");
  REQUIRE_MESSAGE(set.has_value(), set.error().message());
  return *set;
}

TEST_CASE("what a download, a copy or an editor left beside the packs is none of them") {
  const test::Packs packs;
  const std::string tar = test::tar_member("a.jpg", "j") + test::kTarEnd;
  for (const char* name : {"000.tar", "001.tar", ".002.tar.Xy12Za", "003.tar.crdownload", "x.tar.tmp", "001.tar~",
                           "004.tar.part", ".cache/005.tar"}) {
    packs.write(name, tar);
  }
  packs.write("x.npy.tmp", test::npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", 4));
  const auto set = open_set(packs);
  CHECK(set->packs().size() == 2);
  CHECK(set->count() == 2);
  CHECK(set->left_out().empty());
}

TEST_CASE("a pack that is broken costs itself alone, with a line that names it") {
  const test::Packs packs;
  const std::string tar = test::tar_member("a.jpg", std::string(600, 'j')) + test::kTarEnd;
  packs.write("000.tar", tar);
  packs.write("001.tar", tar.substr(0, 1000));
  packs.write("002.tar", tar);
  const auto set = open_set(packs);
  CHECK(set->count() == 2);
  REQUIRE(set->left_out().size() == 1);
  CHECK(set->left_out()[0].find("001.tar") != std::string::npos);
  CHECK(set->left_out()[0].find("outside of the file") != std::string::npos);
}

}  // namespace
}  // namespace headrace::cache::record_set_test
