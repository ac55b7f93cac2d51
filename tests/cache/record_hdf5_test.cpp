// SPDX-License-Identifier: Apache-2.0
// Where the rows of HDF5 files lie, of sound files and of hostile ones.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/record_map.h"
#include "headrace/cache/record_order.h"

#include "cache/hdf5_pack.h"
#include "cache/packs.h"

namespace headrace::cache::record_hdf5_test {
namespace {

using test::check_extent;
using test::hdf5_pack;
using test::Hdf5At;
using test::Packs;
using test::put;

// The pack with one number of it changed, behind the first bytes of what is changed.
template <typename Number>
std::string with(std::size_t at, Number number) {
  std::string bytes = hdf5_pack();
  put(bytes, at, number);
  return bytes;
}

void refuse(const std::string& bytes, std::string_view why) {
  Packs().refuse("a.h5", bytes, why);
}

constexpr std::size_t kFirstChunk = Hdf5At::kChunkTree + 24;

}  // namespace

TEST_CASE("a chunk of an HDF5 data set is a record, of several rows where these share it") {
  const Packs packs;
  const auto map = packs.map("a.h5", hdf5_pack());
  REQUIRE(map.has_value());
  CHECK(map->rows() == 10);
  CHECK(map->rows_per_record() == 3);
  REQUIRE(map->count() == 4);
  for (std::uint64_t record = 0; record < 4; ++record) check_extent(*map, record, Hdf5At::kChunks + 12 * record, 12);
  CHECK(packs.map("a.h5", hdf5_pack(), "hdf5:rows").has_value());
  CHECK(packs.map("a.h5", hdf5_pack(), "hdf5:/rows").has_value());
  packs.refuse("a.h5", hdf5_pack(), "no data set row ", "hdf5:row");
  packs.refuse("a.h5", hdf5_pack(), "is unknown", "hdf5:");
  packs.refuse("a.h5", hdf5_pack(), "is unknown", "npy:rows");
}

TEST_CASE("chunks that were never written are records without bytes") {
  std::string bytes = with<std::uint16_t>(Hdf5At::kChunkTree + 6, 2);
  put<std::uint64_t>(bytes, kFirstChunk + 8, 3);
  put<std::uint64_t>(bytes, kFirstChunk + 40 + 8, 6);
  const auto map = Packs().map("a.h5", bytes);
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 4);
  CHECK(map->extent(0).length == 0);
  check_extent(*map, 1, Hdf5At::kChunks, 12);
  check_extent(*map, 2, Hdf5At::kChunks + 12, 12);
  CHECK(map->extent(3).length == 0);
}

TEST_CASE("rows of an HDF5 data set that lie in one piece take no memory, also behind a block of the user's") {
  const auto contiguous = [](std::uint64_t base) {
    std::string bytes = hdf5_pack();
    bytes.replace(Hdf5At::kLayout, 2, "\x03\x01");
    put<std::uint64_t>(bytes, Hdf5At::kLayout + 2, Hdf5At::kChunks);
    put<std::uint64_t>(bytes, Hdf5At::kLayout + 10, 40);
    put<std::uint64_t>(bytes, 24, base);
    return std::string(base, ' ') + bytes;
  };
  for (const std::uint64_t base : {std::uint64_t{0}, std::uint64_t{512}}) {
    const auto map = Packs().map("a.h5", contiguous(base));
    REQUIRE(map.has_value());
    CHECK(map->rows_per_record() == 1);
    REQUIRE(map->count() == 10);
    check_extent(*map, 9, base + Hdf5At::kChunks + 36, 4);
  }
  std::string bytes = contiguous(0);
  put<std::uint64_t>(bytes, Hdf5At::kLayout + 10, 50);
  refuse(bytes, "outside of the file");
  put<std::uint64_t>(bytes, Hdf5At::kLayout + 10, 41);
  refuse(bytes, "outside of it");
  put<std::uint64_t>(bytes, Hdf5At::kLayout + 10, 0);
  refuse(bytes, "no pack");
  put<std::uint64_t>(bytes, Hdf5At::kLayout + 2, UINT64_MAX - 1);
  refuse(bytes, "outside of it");
}

TEST_CASE("a data set that has no map is not taken for a smaller one that has") {
  std::string bytes = with<std::uint8_t>(Hdf5At::kLayout, 4);
  refuse(bytes, "rows has chunks of the newest layout");
  bytes[Hdf5At::kLayout + 1] = 0;
  refuse(bytes, "rows is neither contiguous nor in chunks");
  refuse(with<std::uint8_t>(Hdf5At::kDataspace + 32, 0x19), "variable length");
}

TEST_CASE("an HDF5 file whose headers are hostile is refused") {
  refuse(hdf5_pack().substr(0, 20), "no header");
  refuse(with<std::uint8_t>(8, 9), "another version");
  refuse(with<std::uint8_t>(13, 4), "64 bits");
  refuse(with<std::uint64_t>(24, 1), "begins elsewhere");
  refuse(with<std::uint64_t>(64, UINT64_MAX), "outside of it");
  refuse(with<std::uint64_t>(64, Hdf5At::kHeap), "no header");
  refuse(with<std::uint32_t>(Hdf5At::kRoot + 8, UINT32_MAX), "too long");
  refuse(with<std::uint32_t>(Hdf5At::kRoot + 8, 5000), "outside of the file");
  refuse(with<std::uint16_t>(Hdf5At::kRoot + 18, 17), "cut off");
  refuse(with<std::uint16_t>(Hdf5At::kRoot + 18, 8), "cut off");  // the message of the group
  // A header that goes on in itself.
  std::string circle = with<std::uint16_t>(Hdf5At::kRoot + 16, 0x10);
  put<std::uint64_t>(circle, Hdf5At::kRoot + 24, Hdf5At::kRoot + 16);
  put<std::uint64_t>(circle, Hdf5At::kRoot + 32, 24);
  refuse(circle, "circles");
  put<std::uint64_t>(circle, Hdf5At::kRoot + 32, UINT64_MAX);
  refuse(circle, "too long");
}

TEST_CASE("an HDF5 file whose groups are hostile is refused") {
  refuse(with<std::uint8_t>(Hdf5At::kGroupTree, 'x'), "makes no sense");
  refuse(with<std::uint16_t>(Hdf5At::kGroupTree + 6, UINT16_MAX), "circles");
  refuse(with<std::uint64_t>(Hdf5At::kGroupTree + 32, UINT64_MAX - 3), "outside of it");
  std::string circle = with<std::uint8_t>(Hdf5At::kGroupTree + 5, 1);
  put<std::uint64_t>(circle, Hdf5At::kGroupTree + 32, Hdf5At::kGroupTree);
  refuse(circle, "makes no sense");
  refuse(with<std::uint64_t>(Hdf5At::kHeap + 8, UINT64_MAX), "too many names");
  refuse(with<std::uint64_t>(Hdf5At::kHeap + 8, std::uint64_t{1} << 25),
         "names of a group of this HDF5 file are cut off");
  refuse(with<std::uint64_t>(Hdf5At::kHeap + 24, UINT64_MAX), "outside of it");
  refuse(with<std::uint64_t>(Hdf5At::kSymbols + 8, 16), "outside of its heap");
  refuse(with<std::uint16_t>(Hdf5At::kSymbols + 6, UINT16_MAX), "circles");
  refuse(with<std::uint16_t>(Hdf5At::kSymbols + 6, 4), "overlap");
  refuse(with<std::uint64_t>(Hdf5At::kSymbols + 16, Hdf5At::kRoot), "no data set");  // a group that is in itself
  refuse(with<std::uint64_t>(Hdf5At::kSymbols + 16, UINT64_MAX), "no data set");
}

TEST_CASE("an HDF5 file whose chunks are hostile is refused") {
  refuse(with<std::uint8_t>(Hdf5At::kDataspace + 1, 200), "no data set");
  refuse(with<std::uint8_t>(Hdf5At::kDataspace + 1, 1), "layout of rows makes no sense");
  refuse(with<std::uint64_t>(Hdf5At::kDataspace + 8, UINT64_MAX / 2), "layout of rows makes no sense");
  refuse(with<std::uint64_t>(Hdf5At::kDataspace + 8, 0), "has no rows yet");
  refuse(with<std::uint64_t>(Hdf5At::kDataspace + 8, std::uint64_t{1} << 40), "too many rows");
  refuse(with<std::uint64_t>(Hdf5At::kDataspace + 8, std::uint64_t{1} << 27), "more rows than it has room for");
  refuse(with<std::uint32_t>(Hdf5At::kLayout + 11, 0), "layout of rows makes no sense");
  refuse(with<std::uint64_t>(Hdf5At::kLayout + 3, Hdf5At::kGroupTree), "tree of this HDF5 file makes no sense");
  refuse(with<std::uint64_t>(kFirstChunk + 8, 1), "make no sense");         // within a chunk
  refuse(with<std::uint64_t>(kFirstChunk + 8, 3), "make no sense");         // twice
  refuse(with<std::uint64_t>(kFirstChunk + 120 + 8, 12), "make no sense");  // behind the last row
  refuse(with<std::uint64_t>(kFirstChunk + 120 + 8, UINT64_MAX), "make no sense");
  refuse(with<std::uint64_t>(kFirstChunk + 32, UINT64_MAX), "outside of it");
  refuse(with<std::uint32_t>(kFirstChunk, UINT32_MAX), "outside of it");
  refuse(with<std::uint16_t>(Hdf5At::kChunkTree + 6, UINT16_MAX), "circles");
  std::string circle = with<std::uint8_t>(Hdf5At::kChunkTree + 5, 1);
  put<std::uint64_t>(circle, kFirstChunk + 32, Hdf5At::kChunkTree);
  refuse(circle, "make no sense");
  put<std::uint8_t>(circle, Hdf5At::kChunkTree + 5, 255);
  refuse(circle, "make no sense");
}

TEST_CASE("a record of several rows is read once where they follow each other") {
  const auto set = test::set_of(1, Packs().map("a.h5", hdf5_pack()).value());
  const auto order = make_record_order("sequential", set, true);
  REQUIRE(order.has_value());
  CHECK((*order)->epoch(0).value() == std::vector<SampleIndex>{0, 1, 2, 3});
  CHECK((*order)->length(0) == 4);
  CHECK((*order)->length(7) == 4);  // of an epoch that nobody has drawn
  const auto shuffled = make_record_order("torch-random:seed=1", set, true);
  REQUIRE(shuffled.has_value());
  const auto records = (*shuffled)->epoch(0).value();
  CHECK(records.size() > 4);  // a chunk comes again for its other rows
  CHECK(records.size() <= 10);
  CHECK((*shuffled)->length(0) == records.size());
}

}  // namespace headrace::cache::record_hdf5_test
