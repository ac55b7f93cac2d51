// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/record_answers.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/fuse/kernel/inodes.h"

#include "cache/packs.h"
#include "support/temp_dir.h"

namespace headrace::fuse::record_answers_test {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRecordBytes = 3 * kPage;
constexpr cache::EntryId kPackEntry = 6;
constexpr std::uint64_t kInode = 7;
constexpr std::uint64_t kOtherVersion = kInode + (std::uint64_t{1} << kVersionShift);

// Ten records of three pages each, and what a READ was answered.
struct Pack {
  std::shared_ptr<const PackRecords> records = std::make_shared<const PackRecords>(
      headrace::test::set_of(kPackEntry, cache::RecordMap::strided(10 * kRecordBytes, 0, kRecordBytes, 10).value()));
  RecordAnswers answers{records};
  std::shared_ptr<const std::vector<std::byte>> content =
      std::make_shared<const std::vector<std::byte>>(headrace::test::pattern_bytes(kRecordBytes, 3));
  std::optional<std::vector<std::byte>> answered;  // none: not yet

  bool read(std::uint64_t offset, std::uint64_t length, std::uint64_t inode = kInode) {
    answered.reset();
    const PageRange range{.offset = offset, .length = length};
    return answers.answer_read(kPackEntry, inode, range, [this](std::span<const std::byte> bytes) {
      answered.emplace(bytes.begin(), bytes.end());
    });
  }
  void arrive(cache::SampleIndex record) { answers.arrive(record, *content, content); }
  [[nodiscard]] std::vector<std::byte> page(std::size_t index) const {
    return {content->begin() + static_cast<std::ptrdiff_t>(index * kPage),
            content->begin() + static_cast<std::ptrdiff_t>((index + 1) * kPage)};
  }
};

TEST_CASE("record answers: a READ waits for a record that is fetched, and has its bytes when it arrives") {
  Pack pack;
  CHECK_FALSE(pack.read(2 * kRecordBytes, kPage));  // nobody fetches it
  pack.answers.expect(2, kInode);
  REQUIRE(pack.read(2 * kRecordBytes + kPage, kPage));
  CHECK_FALSE(pack.answered);
  pack.arrive(2);
  REQUIRE(pack.answered);
  CHECK(*pack.answered == pack.page(1));
}

TEST_CASE("record answers: a READ of a record that has arrived is answered at once, until it is pushed") {
  Pack pack;
  pack.answers.expect(0, kInode);
  pack.arrive(0);
  REQUIRE(pack.read(2 * kPage, kPage));
  REQUIRE(pack.answered);
  CHECK(*pack.answered == pack.page(2));
  CHECK_FALSE(pack.read(0, kPage, kOtherVersion));  // another version's
  CHECK_FALSE(pack.read(2 * kPage, 2 * kPage));     // beyond what was fetched
  pack.answers.finish(0);
  CHECK_FALSE(pack.read(2 * kPage, kPage));
}

TEST_CASE("record answers: of a record that could not be read, who waits has no bytes, and who comes asks elsewhere") {
  Pack pack;
  pack.answers.expect(1, kInode);
  REQUIRE(pack.read(kRecordBytes, kPage));
  pack.answers.arrive(1, {}, nullptr);
  REQUIRE(pack.answered);
  CHECK(pack.answered->empty());
  CHECK_FALSE(pack.read(kRecordBytes, kPage));
}

TEST_CASE("record answers: a record that is on its way twice stays for who waits until the first has arrived") {
  Pack pack;
  pack.answers.expect(4, kInode);
  pack.answers.expect(4, kInode);
  REQUIRE(pack.read(4 * kRecordBytes, kPage));
  pack.answers.finish(4);  // that of the plan before, which never arrived
  pack.arrive(4);
  REQUIRE(pack.answered);
  CHECK(*pack.answered == pack.page(0));
}

TEST_CASE("record answers: a beacon answers the one READ of its page") {
  Pack pack;
  pack.answers.leave_beacon(3, {.inode = kInode, .offset = 3 * kRecordBytes + kPage, .bytes = pack.page(1)});
  CHECK_FALSE(pack.read(3 * kRecordBytes, kPage));
  CHECK_FALSE(pack.read(3 * kRecordBytes + kPage, kPage, kOtherVersion));
  REQUIRE(pack.read(3 * kRecordBytes + kPage, kPage));
  CHECK(pack.answered == pack.page(1));
  CHECK_FALSE(pack.read(3 * kRecordBytes + kPage, kPage));  // the kernel has it by now

  pack.answers.leave_beacon(3, {.inode = kInode, .offset = 3 * kRecordBytes + kPage, .bytes = pack.page(1)});
  pack.answers.drop_beacon(3);
  CHECK_FALSE(pack.read(3 * kRecordBytes + kPage, kPage));
}

TEST_CASE("record answers: once the pack has changed nothing is shown that was fetched before, arrived or not") {
  Pack pack;
  pack.answers.expect(0, kInode);
  pack.answers.expect(1, kInode);
  pack.arrive(0);
  pack.answers.leave_beacon(3, {.inode = kInode, .offset = 3 * kRecordBytes, .bytes = pack.page(0)});
  REQUIRE(pack.read(kRecordBytes, kPage));
  pack.answers.forget();
  pack.arrive(1);
  REQUIRE(pack.answered);  // that READ came before the change
  CHECK(*pack.answered == pack.page(0));
  CHECK_FALSE(pack.read(0, kPage));
  CHECK_FALSE(pack.read(kRecordBytes, kPage));
  CHECK_FALSE(pack.read(3 * kRecordBytes, kPage));
}

}  // namespace
}  // namespace headrace::fuse::record_answers_test
