// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/read_evidence.h"

#include <memory>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "cache/packs.h"

namespace headrace::fuse::read_evidence_test {
namespace {

using cache::SampleIndex;

constexpr std::uint64_t kPage = 4096;
constexpr cache::EntryId kPack = 7;

// Rows of `bytes` behind a header, and what READs of the pack tell.
struct Rows {
  Rows(std::uint64_t header, std::uint64_t bytes)
      : records(std::make_shared<const PackRecords>(headrace::test::set_of(
            kPack, cache::RecordMap::strided(header + 1000 * bytes, header, bytes, 1000).value()))),
        evidence(records) {}
  std::optional<SampleIndex> read(std::uint64_t offset, std::uint64_t length) {
    const PageRange range{offset, length};
    return evidence.on_read(range, records->records_in(kPack, range));
  }
  std::shared_ptr<const PackRecords> records;
  ReadEvidence evidence;
};

TEST_CASE("read evidence: a READ of a whole record is for that one, however many it shares pages with") {
  Rows rows(128, 2 * kPage);
  CHECK(rows.read(2 * kPage, 3 * kPage) == 1);
  CHECK_FALSE(rows.read(2 * kPage, 3 * kPage).has_value());  // once
  CHECK(rows.read(20 * kPage, 3 * kPage) == 10);
}

TEST_CASE("read evidence: faults of one record are one read, also between those of another") {
  Rows rows(0, 4 * kPage);
  CHECK(rows.read(8 * kPage, kPage) == 2);
  CHECK(rows.read(40 * kPage, kPage) == 10);
  CHECK_FALSE(rows.read(9 * kPage, kPage).has_value());
  CHECK_FALSE(rows.read(41 * kPage, kPage).has_value());
}

TEST_CASE("read evidence: the second fault tells which of two neighbours is read") {
  Rows rows(128, kPage);
  CHECK_FALSE(rows.read(5 * kPage, kPage).has_value());
  CHECK(rows.read(6 * kPage, kPage) == 5);
  CHECK_FALSE(rows.read(60 * kPage, kPage).has_value());
  CHECK_FALSE(rows.read(80 * kPage, kPage).has_value());  // nothing in common
}

TEST_CASE("read evidence: of records of which a page has several nothing is known") {
  Rows rows(0, 512);
  CHECK_FALSE(rows.read(0, kPage).has_value());
  CHECK_FALSE(rows.read(kPage, 2 * kPage).has_value());
}

TEST_CASE("read evidence: what was told is told once, and not what somebody else knows") {
  Rows rows(0, kPage);
  for (std::uint64_t record = 0; record < 4; ++record) CHECK(rows.read(record * kPage, kPage) == record);
  rows.evidence.settle(std::vector<SampleIndex>{0, 1});
  CHECK_FALSE(rows.evidence.take_told(1));
  CHECK(rows.evidence.take_told(2));
  CHECK_FALSE(rows.evidence.take_told(2));
  CHECK(rows.evidence.take_told(3));
}

TEST_CASE("read evidence: what is read again after many others is read again") {
  Rows rows(0, kPage);
  for (std::uint64_t record = 0; record <= ReadEvidence::kRecent; ++record)
    CHECK(rows.read(record * kPage, kPage) == record);
  CHECK(rows.read(0, kPage) == 0);
}

}  // namespace
}  // namespace headrace::fuse::read_evidence_test
