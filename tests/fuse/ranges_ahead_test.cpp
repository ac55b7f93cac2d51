// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/ranges_ahead.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/io/unique_fd.h"

#include "fuse/hanging_store.h"
#include "support/temp_dir.h"

namespace headrace::fuse::ranges_ahead_test {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kApart = 64 << 10;

std::string marked(std::uint64_t offset) {
  return "at " + std::to_string(offset);
}

// A file of 16 MiB, of which every 64 KiB begin with where they are, and the ranges of a page each that say so.
struct Opened {
  explicit Opened(RangesAhead::Limits limits = {}) {
    const std::filesystem::path file = dir.write("pack.bin", "");
    std::filesystem::resize_file(file, 16 * kMiB);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t offset = 0; offset < 16 * kMiB; offset += kApart) {
      stream.seekp(static_cast<std::streamoff>(offset));
      stream << marked(offset);
    }
    stream.close();
    inner = cache::Store::open({.source = dir.path(), .ram_bytes = 8 << 20}).value();
    store = std::make_unique<test::HangingStore>(*inner);
    entry = inner->catalog().find("pack.bin").value();
    RangesAhead::Ranges ranges;
    for (std::uint64_t offset = 0; offset < 16 * kMiB; offset += kApart) ranges.push_back({offset, kPage});
    ahead = std::make_shared<RangesAhead>(*store, entry, std::make_shared<RangesAhead::Ranges>(ranges), limits);
  }

  // What the READ gets: "no" where it is not answered.
  std::string read(std::uint64_t number) {
    std::string got = "no";
    const bool is_answered = ahead->answer_read(
        {number * kApart, kPage}, [&](Bytes bytes) { got = reinterpret_cast<const char*>(bytes.data()); });
    CHECK(is_answered == (got != "no"));
    return got;
  }
  // The same once its range is there.
  std::string await(std::uint64_t number) {
    std::string got = read(number);
    while (got == "no" && !ahead->is_over()) {
      std::this_thread::yield();
      got = read(number);
    }
    return got;
  }
  std::uint64_t source_reads() const { return inner->stats().tiers.back().hits; }

  headrace::test::TempDir dir;
  std::unique_ptr<cache::Store> inner;
  std::unique_ptr<test::HangingStore> store;
  cache::EntryId entry = 0;
  std::shared_ptr<RangesAhead> ahead;
};

TEST_CASE("a reader gets range after range, each read once") {
  Opened opened;
  REQUIRE(opened.read(0) == "no");  // the one that leads goes by itself
  for (std::uint64_t number = 1; number < 255; ++number) {
    CHECK_FALSE(opened.ahead->is_over());
    REQUIRE(opened.await(number) == marked(number * kApart));
  }
  while (opened.source_reads() < 255) std::this_thread::yield();
  const std::string last = opened.read(255);  // the reader is through with it, whether or not it is there
  CHECK((last == marked(255 * kApart) || last == "no"));
  CHECK(opened.ahead->is_over());
  CHECK(opened.ahead->counts().fetched == 255);
  CHECK(opened.ahead->counts().used == 255);
  CHECK(opened.source_reads() == 255);
}

TEST_CASE("no more is fetched ahead than the limits say") {
  Opened opened({.ranges = 10, .bytes = kMiB});
  REQUIRE(opened.read(0) == "no");
  CHECK(opened.ahead->counts().fetched == 10);
  Opened small({.ranges = 100, .bytes = 3 * cache::footprint_bytes(kPage)});
  REQUIRE(small.read(0) == "no");
  for (std::uint64_t number = 1; number < 100; ++number) REQUIRE(small.await(number) == marked(number * kApart));
  CHECK(small.ahead->counts().fetched <= 103);
  Opened least({.ranges = 1, .bytes = 1});  // one is always fetched
  REQUIRE(least.read(0) == "no");
  REQUIRE(least.await(1) == marked(kApart));
}

TEST_CASE("a reader may leave ranges out, and come to some out of their order") {
  Opened opened({.ranges = 20, .bytes = kMiB});
  REQUIRE(opened.read(3) == "no");
  REQUIRE(opened.read(1) == "no");  // before the first one that it read
  REQUIRE(opened.await(5) == marked(5 * kApart));
  REQUIRE(opened.await(4) == marked(4 * kApart));
  REQUIRE(opened.read(200) == "no");  // further on than what is fetched
  REQUIRE(opened.await(201) == marked(201 * kApart));
}

TEST_CASE("a reader that reads something else is given up") {
  Opened opened;
  REQUIRE(opened.read(0) == "no");
  for (int i = 0; i < 64; ++i) {
    CHECK_FALSE(opened.ahead->is_over());
    CHECK_FALSE(opened.ahead->answer_read({kPage, kPage}, [](Bytes) { FAIL("it is not one of the ranges"); }));
  }
  CHECK(opened.ahead->is_over());
  CHECK(opened.read(1) == "no");
}

TEST_CASE("nobody waits for what is on its way, and it is shown once it is there, unless it was stopped") {
  Opened opened;
  opened.store->pin_reads_ahead();
  REQUIRE(opened.read(0) == "no");
  while (opened.store->pinned_reads() < 128) std::this_thread::yield();
  CHECK(opened.read(1) == "no");
  CHECK(opened.read(2) == "no");
  CHECK(opened.ahead->counts().used == 2);  // the profile was right
  SUBCASE("it arrives") {
    opened.store->let_go();
    CHECK(opened.await(1) == marked(kApart));
    CHECK(opened.await(3) == marked(3 * kApart));
  }
  SUBCASE("it arrives after all was given up") {
    opened.ahead->give_up();
    opened.store->let_go();
    CHECK(opened.read(3) == "no");
  }
  SUBCASE("it is stopped") {
    opened.ahead->stop();
    opened.store->let_go();
    CHECK(opened.read(3) == "no");
  }
}

TEST_CASE("a range that cannot be read is for the store to answer, and those after it come all the same") {
  Opened opened;
  std::filesystem::resize_file(opened.dir.path() / "pack.bin", kApart);  // another version, and shorter
  CHECK(opened.read(5) == "no");
  for (const std::uint64_t number : {6, 7}) {
    CHECK(opened.read(number) == "no");
  }
}

}  // namespace
}  // namespace headrace::fuse::ranges_ahead_test
