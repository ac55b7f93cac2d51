// SPDX-License-Identifier: Apache-2.0
// Packs of hand-made bytes, sound and hostile.
#include "headrace/cache/record_map.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/records/pack_file.h"

#include "cache/made_packs.h"
#include "cache/packs.h"

namespace headrace::cache::record_map_test {
namespace {

using namespace headrace::test;  // the packs that they make

constexpr const char* kRows = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }\n";

}  // namespace

TEST_CASE("a row of an .npy file is a record") {
  const auto map = Packs().map("a.npy", npy(kRows, 60));
  REQUIRE(map.has_value());
  CHECK(map->count() == 3);
  check_extent(*map, 2, 10 + std::string_view(kRows).size() + 40, 20);
}

TEST_CASE("an .npy file that has no rows of one size is refused") {
  const Packs packs;
  packs.refuse("a.npy", npy(kRows, 59), "a.npy: records lie outside");
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5), }", 60), "Fortran");
  packs.refuse("a.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 60), "no fixed size");
  packs.refuse("a.npy", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 60), "fixed size");
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5", 60), "makes no sense");
  const std::string huge = "4611686018427387904";
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, " + huge + ", 4), }", 60), "sense");
  packs.refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + huge + ",), }", 60), "no pack");
  packs.refuse("a.npy", npy(kRows, 60).substr(0, 40), "outside of the file");
}

TEST_CASE("a stride makes records of any file, beginning at an offset") {
  const Packs packs;
  const auto map = packs.map("raw.bin", std::string(28, 'x'), "stride=8,offset=4");
  REQUIRE(map.has_value());
  CHECK(map->count() == 3);
  check_extent(*map, 1, 12, 8);
  packs.refuse("raw.bin", std::string(28, 'x'), "no whole records", "stride=8");
  packs.refuse("raw.bin", std::string(28, 'x'), "no whole records", "stride=8,offset=36");
  packs.refuse("raw.bin", std::string(28, 'x'), "records 'stride=0'", "stride=0");
  packs.refuse("raw.bin", std::string(28, 'x'), "records 'stride=8,offset='", "stride=8,offset=");
  packs.refuse("raw.bin", std::string(28, 'x'), "records 'pickle'", "pickle");
  packs.refuse("raw.bin", std::string(28, 'x'), "raw.bin: is no pack");
}

TEST_CASE("a value of an LMDB is a record, numbered by its key where all keys are numbers") {
  const Packs packs;
  const auto cursor = packs.map("data.mdb", lmdb({{"a", "12345"}, {"b", ""}, {"length", "2"}}));
  REQUIRE(cursor.has_value());
  CHECK(cursor->count() == 2);
  check_extent(*cursor, 0, 3 * kPage - 14 + 9, 5);
  check_extent(*cursor, 1, 3 * kPage + 16, 5000);  // on pages of its own

  // As a cursor goes: "0", "1", "10", "2".
  std::vector<LmdbEntry> entries = {{"0", "a"}, {"1", "bb"}, {"10", "ccc"}};
  for (char key = '2'; key <= '9'; ++key) entries.push_back({std::string(1, key), "dddd"});
  const auto numbered = packs.map("data.mdb", lmdb(entries));
  REQUIRE(numbered.has_value());
  CHECK(numbered->extent(1).length == 2);
  CHECK(numbered->extent(2).length == 4);
  CHECK(numbered->extent(10).length == 3);
}

TEST_CASE("a map of a tree says which pages of the pack are the tree") {
  const Packs packs;
  const auto lmdb_map = packs.map("data.mdb", lmdb({{"a", "12345"}, {"b", ""}}));
  REQUIRE(lmdb_map.has_value());
  REQUIRE(lmdb_map->index().size() == 3);  // two meta pages, a leaf
  CHECK(lmdb_map->index()[1].offset == kPage);
  CHECK(lmdb_map->index()[2].offset == 2 * kPage);
  CHECK(lmdb_map->index()[2].length == kPage);
  CHECK(packs.map("a.npy", npy(kRows, 60))->index().empty());

  RecordMap map(1000);
  map.set_index({{.offset = 500, .length = 10},
                 {.offset = 0, .length = 5},
                 {.offset = 505, .length = 10},
                 {.offset = 501, .length = 2},
                 {.offset = 515, .length = 1},
                 {.offset = 900, .length = 0}});
  REQUIRE(map.index().size() == 2);
  CHECK(map.index()[1].offset == 500);
  CHECK(map.index()[1].length == 16);
}

TEST_CASE("a hostile LMDB is refused") {
  const Packs packs;
  const std::string sound = lmdb({{"a", "12345"}, {"b", ""}});
  const auto refuse = [&](std::size_t at, auto number, std::string_view why) {
    std::string bytes = sound;
    put(bytes, at, number);
    packs.refuse("data.mdb", bytes, why);
  };
  const std::size_t leaf = 2 * kPage;
  const std::size_t first = leaf + kPage - 14;
  const std::size_t second = first - 18;
  refuse(kPage + 16 + 112, std::uint64_t{1000}, "outside of the file");  // the root
  refuse(kPage + 16 + 104, std::uint64_t{1} << 60, "another number");    // the count
  refuse(kPage + 16 + 24, std::uint32_t{8192}, "contradict");            // the page size
  refuse(kPage + 16 + 104, std::uint64_t{1}, "more values than it says");
  refuse(16 + 24, std::uint32_t{0}, "page size");
  refuse(leaf + 12, std::uint16_t{65535}, "makes no sense");       // entries beyond the page
  refuse(leaf + 16, std::uint16_t{4092}, "outside of its page");   // a node at the end
  refuse(first, std::uint32_t{6000}, "outside of its page");       // a value
  refuse(first + 6, std::uint16_t{60000}, "outside of its page");  // a key
  refuse(first + 4, std::uint16_t{2}, "named databases");
  refuse(second + 9, std::uint64_t{1} << 50, "outside of the file");  // pages of a value
  refuse(second, std::uint32_t{0xFFFFFFFF}, "outside of the file");   // and its length
  packs.refuse("data.mdb", sound.substr(0, 2 * kPage + 100), "outside of the file");

  std::string circle = sound;
  put<std::uint16_t>(circle, leaf + 10, 0x01);
  put<std::uint32_t>(circle, first, 2);  // a branch that leads to itself
  put<std::uint16_t>(circle, first + 4, 0);
  packs.refuse("data.mdb", circle, "circle");
}

TEST_CASE("a line of a RecordIO index is a record, up to where the next one begins") {
  const Packs packs;
  packs.write("a.idx", "0\t16\n1\t0\r\n");
  const auto map = packs.map("a.rec", record_io());
  REQUIRE(map.has_value());
  CHECK(map->count() == 2);
  check_extent(*map, 0, 16, 24);
  check_extent(*map, 1, 0, 16);
}

TEST_CASE("a RecordIO index that does not fit its file is refused") {
  const Packs packs;
  const auto refuse = [&](const std::string& index, std::string_view why) {
    packs.write("a.idx", index);
    packs.refuse("a.rec", record_io(), why);
  };
  refuse("", "empty");
  refuse("0 16\n", "key<TAB>offset");
  refuse("0\t16x\n", "key<TAB>offset");
  refuse("0\t99999999999999999999999\n", "key<TAB>offset");
  refuse("0\t0\n1\t36\n", "too near to the next one");
  refuse("0\t0\n1\t0\n2\t0\n3\t0\n4\t0\n5\t0\n", "too many lines");
  refuse("0\t0\n1\t1000\n", "outside");
  refuse("0\t4\n", "not the index");
  refuse(std::string(100'000, '7'), "key<TAB>offset");
  packs.refuse("missing.rec", record_io(), "missing.idx");
}

TEST_CASE("a map is of the version of its pack, and of no other") {
  const Packs packs;
  packs.write("a.idx", "0\t16\n1\t0\n");
  const auto map = packs.map("a.rec", record_io());
  REQUIRE(map.has_value());
  const auto version = [&packs] {
    const auto pack = PackFile::open(packs.folder(), "a.rec");
    REQUIRE(pack.has_value());
    return pack->version();
  };
  const io::FileAttributes first = version();
  CHECK(map->is_of(first));
  CHECK_FALSE(RecordMap(40).is_of({}));  // made by hand

  const auto again = packs.map("a.rec", record_io());  // written anew, with the same bytes
  REQUIRE(again.has_value());
  CHECK(again->is_of(version()));
  CHECK_FALSE(again->is_of(first));
  CHECK_FALSE(map->is_of(version()));
}

TEST_CASE("records that adjoin end where the next one begins, in whatever order they are told") {
  const auto map = RecordMap::adjoining(100, {60, 10, 60, 30}, 1);
  REQUIRE(map.has_value());
  check_extent(*map, 0, 60, 40);
  check_extent(*map, 1, 10, 20);
  check_extent(*map, 2, 60, 40);
  check_extent(*map, 3, 30, 30);
  CHECK_FALSE(RecordMap::adjoining(100, {0, 101}, 1));
  CHECK_FALSE(RecordMap::adjoining(100, {0, 100}, 1));
  CHECK_FALSE(RecordMap::adjoining(100, {0, 10, 14}, 8));
  CHECK_FALSE(RecordMap::adjoining(std::uint64_t{1} << 33, {0}, 1));  // 4 GiB and more
  CHECK(RecordMap::adjoining(100, {}, 1)->count() == 0);
}

TEST_CASE("packed numbers come back as they were, and take the bytes that the largest one needs") {
  PackedNumbers numbers;
  std::vector<std::uint64_t> expected;
  for (unsigned bits = 0; bits <= 64; ++bits) {
    for (const std::uint64_t number :
         {UINT64_MAX >> (64 - std::max(bits, 1U)), std::uint64_t{1} << (bits % 64), std::uint64_t{0}}) {
      numbers.push_back(number);
      expected.push_back(number);
      for (std::size_t at = 0; at < expected.size(); ++at) REQUIRE(numbers[at] == expected[at]);
    }
  }
  CHECK(numbers.size() == expected.size());
  PackedNumbers small;
  for (std::uint64_t i = 0; i < 1000; ++i) small.push_back(i);
  CHECK(small.memory_bytes() < 2 * 1000 + 16);
}

TEST_CASE(
    "a map takes 7 bytes a record in a file of 1 TiB, and 11 with the way back where records lie in no sequence") {
  constexpr std::uint64_t kCount = 10'000;
  constexpr std::uint64_t kApart = 100'000'000;
  for (const std::uint64_t step : {1U, 7U}) {  // 7 and 10 000 have no divisor in common
    RecordMap map(kCount * kApart);
    for (std::uint64_t i = 0; i < kCount; ++i) REQUIRE(map.add(i * step % kCount * kApart, 50'000 + i));
    const std::uint64_t bytes = map.memory_bytes() + RecordPlaces(map).memory_bytes();
    CHECK(bytes <= kCount * (step == 1 ? 7 : 11) + 16);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      REQUIRE(map.extent(i).offset == i * step % kCount * kApart);
      REQUIRE(map.extent(i).length == 50'000 + i);
    }
  }
}

TEST_CASE("the records of a range are those that have a byte in it, whatever the sequence of their numbers") {
  constexpr std::uint64_t kFileBytes = 10'000;
  RecordMap shuffled(kFileBytes);
  for (const std::uint64_t at : {7000U, 100U, 4000U, 3000U, 3500U}) REQUIRE(shuffled.add(at, at == 3500 ? 0 : 500));
  const RecordMap strided = RecordMap::strided(kFileBytes, 40, 100, 99).value();
  for (const RecordMap* map : std::initializer_list<const RecordMap*>{&shuffled, &strided}) {
    const RecordPlaces places(*map);
    for (std::uint64_t offset = 0; offset < kFileBytes; offset += 50) {
      for (const std::uint64_t length : {1U, 100U, 4096U}) {
        std::vector<std::uint32_t> expected;
        for (std::uint32_t record = 0; record < map->count(); ++record) {
          const RecordExtent extent = map->extent(record);
          const std::uint64_t begin = std::max(offset, extent.offset);
          if (begin < std::min(offset + length, extent.offset + extent.length)) expected.push_back(record);
        }
        std::vector<std::uint32_t> found = places.in_range(offset, length, 1000);
        std::ranges::sort(found);
        REQUIRE(found == expected);
      }
    }
  }
  CHECK(RecordPlaces(strided).in_range(0, kFileBytes, 3) == std::vector<std::uint32_t>{0, 1, 2});
}

}  // namespace headrace::cache::record_map_test
