// SPDX-License-Identifier: Apache-2.0
// Packs of the formats that are read in one pass, sound and hostile.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/record_map.h"

#include "cache/hdf5_pack.h"
#include "cache/made_packs.h"
#include "cache/packs.h"

namespace headrace::cache::record_formats_test {

using namespace headrace::test;  // the packs that they make

TEST_CASE("the members of a tar that agree up to the first dot of their names are a record") {
  const std::string tar = tar_member("a/", "", '5') + tar_member("a/0.jpg", std::string(600, 'j')) +
                          tar_member("a/0.cls", "7") + tar_member("a/1.jpg", "") + tar_member("a/1.b.json", "{}") +
                          tar_member("plain", "x") + kTarEnd;
  const auto map = Packs().map("a.tar", tar);
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 3);
  check_extent(*map, 0, 512, 512 + 1024 + 1024);
  check_extent(*map, 1, 3072, 512 + 1024);
  check_extent(*map, 2, 4608, 1024);
  CHECK(Packs().map("a.tar", tar.substr(0, tar.size() - kTarEnd.size()))->count() == 3);  // as an append leaves it
}

TEST_CASE("a link or a folder among the members of a tar's sample does not split it") {
  const std::string link = tar_member("././@LongLink", std::string(150, 't'), 'K') + tar_member("a/0.link", "", '2');
  const std::string tar = tar_member("a/0.jpg", "j") + link + tar_member("a/0.cls", "7") + tar_member("a/", "", '5') +
                          tar_member("a/0.json", "{}") + tar_member("b/", "", '5') + tar_member("b/0.jpg", "j") +
                          kTarEnd;
  const auto map = Packs().map("a.tar", tar);
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 2);
  check_extent(*map, 0, 0, static_cast<std::uint32_t>(3 * 1024 + link.size() + 512));
  check_extent(*map, 1, static_cast<std::uint32_t>(3 * 1024 + link.size() + 1024), 1024);
}

TEST_CASE("a long name and a size in front of a member of a tar are its own") {
  const std::string name(150, 'n');
  const std::string gnu =
      tar_member("././@LongLink", name + ".jpg" + '\0', 'L') + tar_member(name.substr(0, 99), "one");
  const std::string pax = tar_member("PaxHeaders/x", "162 path=" + name + ".c\n" + "12 size=700\n", 'x');
  std::string sized = tar_member(name.substr(0, 99), std::string(700, 's'));
  sized.replace(124, 11, octal(0, 11));  // as a size of 8 GiB or more is written
  std::string header = sized.substr(0, 512);
  sign(header);
  const auto map = Packs().map("a.tar", gnu + pax + header + sized.substr(512) + tar_member("b", "x") + kTarEnd);
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 2);
  check_extent(*map, 0, 0, static_cast<std::uint32_t>(gnu.size() + pax.size() + sized.size()));
}

TEST_CASE("a hostile tar is refused") {
  const Packs packs;
  const std::string sound = tar_member("a.jpg", std::string(600, 'j')) + kTarEnd;
  packs.refuse("a.tar", sound.substr(0, 1000), "outside of the file");
  std::string unsigned_header = sound;
  unsigned_header[0] = 'b';
  packs.refuse("a.tar", unsigned_header, "checksum");
  const auto with_size = [&](const std::string& size) {
    std::string header = sound.substr(0, 512);
    header.replace(124, 12, size);
    sign(header);
    return header + sound.substr(512);
  };
  packs.refuse("a.tar", with_size("77777777777 "), "outside of the file");
  packs.refuse("a.tar", with_size("999999999999"), "outside of the file");  // no octal number
  packs.refuse("a.tar", with_size("\x80" + std::string(11, '\x7f')), "outside of the file");
  packs.refuse("a.tar", with_size(std::string(12, '\xff')), "outside of the file");
  packs.refuse("a.tar", tar_member("x", "99999999999999999999 path=a\n", 'x') + sound, "make no sense");
  packs.refuse("a.tar", tar_member("x", "2 path=a\n", 'x') + sound, "make no sense");
  packs.refuse("a.tar", tar_member("x", "12 size=-1 \n", 'x') + sound, "outside of the file");
  packs.refuse("a.tar", tar_member("x", std::string(70'000, 'n'), 'L') + sound, "too long");
  packs.refuse("a.tar", tar_member("x", "", 'S') + sound, "sparse");
}

TEST_CASE("a TFRecord is a pack whatever its name, and its records have their lengths and checksums") {
  const auto map = Packs().map("train-00000-of-00001", tf_record(5, "12345") + tf_record(0, "") + tf_record(2, "ab"));
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 3);
  check_extent(*map, 0, 0, 21);
  check_extent(*map, 1, 21, 16);
  check_extent(*map, 2, 37, 18);
}

TEST_CASE("a hostile TFRecord is refused") {
  const Packs packs;
  const std::string sound = tf_record(8, "12345678");
  packs.refuse("a", sound + tf_record(5, "1234"), "cut off");
  packs.refuse("a", sound + tf_record(UINT64_MAX, "1234"), "cut off");
  packs.refuse("a", sound + "123", "cut off");
  packs.refuse("a", sound + std::string(16, 'x'), "checksum");
  packs.refuse("a", std::string(16, 'x') + sound, "no pack");
  packs.refuse("a", std::string(16, 'x') + sound, "checksum", "tfrecord");
}

TEST_CASE("a shard of MDS and a chunk of LitData say where their samples lie") {
  const Packs packs;
  const auto mds = packs.map("shard.00000.mds", mds_shard({20, 25, 25, 40}, 40, 3));  // 4 bytes of columns in between
  REQUIRE(mds.has_value());
  REQUIRE(mds->count() == 3);
  check_extent(*mds, 0, 20, 5);
  check_extent(*mds, 1, 25, 0);
  check_extent(*mds, 2, 25, 15);
  const auto chunk = packs.map("chunk-0-0.bin", mds_shard({12, 20}, 20, 1));
  REQUIRE(chunk.has_value());
  check_extent(*chunk, 0, 12, 8);
  packs.refuse("chunk-0-0.bin", mds_shard({12, 20}, 21, 1), "no pack");
}

TEST_CASE("a hostile shard of MDS is refused") {
  const Packs packs;
  const auto refuse = [&](const std::string& bytes, std::string_view why) { packs.refuse("a.mds", bytes, why); };
  refuse(mds_shard({20, 25, 25, 40}, 41, 3), "does not end where the file does");
  refuse(mds_shard({20, 25, 25, 40}, 39, 3), "outside of the file");
  refuse(mds_shard({20, 25, 24, 40}, 40, 3), "do not rise");
  refuse(mds_shard({19, 25, 25, 40}, 40, 3), "do not rise");  // in the table
  refuse(mds_shard({20, 25, 25, 1000}, 40, 3), "outside of the file");
  refuse(mds_shard({20, 25, 25, 40}, 40, UINT32_MAX), "no room");
  refuse(mds_shard({20, 25, 25, 40}, 40, 9), "no room");
  refuse("abc", "outside of the file");
}

TEST_CASE("what a sample of a .beton has beside its metadata is a record") {
  const Packs packs;
  const auto map = packs.map("a.beton", beton(3, {{2, 4096, 100}, {0, 5000, 10}, {0, 5010, 20}}));
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 3);
  check_extent(*map, 0, 5000, 30);
  CHECK(map->extent(1).length == 0);
  check_extent(*map, 2, 4096, 100);
}

TEST_CASE("a hostile .beton is refused") {
  const Packs packs;
  const auto refuse = [&](const std::string& bytes, std::string_view why) {
    packs.refuse("a.beton", bytes, why, "ffcv");
  };
  refuse(beton(3, {{3, 4096, 100}}), "outside of the file");
  refuse(beton(3, {{0, UINT64_MAX, 100}}), "outside of the file");
  refuse(beton(3, {{0, 4096, UINT64_MAX}}), "outside of the file");
  refuse(beton(3, {{0, 0, 10}, {0, 8000, 10}}), "apart");
  refuse(beton(UINT64_MAX, {}), "no room");
  std::string bytes = beton(1, {{0, 4096, 100}});
  put<std::uint64_t>(bytes, 16, UINT64_MAX);
  refuse(bytes, "table of allocations");
  put<std::uint64_t>(bytes, 16, 8193);
  refuse(bytes, "table of allocations");
  put<std::uint16_t>(bytes, 0, 1);
  refuse(bytes, "another version");
}

TEST_CASE("a sequence of Megatron's index is a record of the .bin") {
  const Packs packs;
  packs.write("text.idx", megatron_index(8, 5, 20));
  const auto map = packs.map("text.bin", std::string(30, 't'));
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 2);
  check_extent(*map, 0, 0, 20);
  check_extent(*map, 1, 20, 10);
}

TEST_CASE("a hostile index of Megatron is refused") {
  const Packs packs;
  const auto refuse = [&](const std::string& index, std::string_view why) {
    packs.write("text.idx", index);
    packs.refuse("text.bin", std::string(30, 't'), why, "megatron");
  };
  refuse(megatron_index(8, 6, 20), "outside of the .bin");
  refuse(megatron_index(8, UINT32_MAX, 20), "outside of the .bin");
  refuse(megatron_index(8, 5, UINT64_MAX - 5), "outside of the .bin");
  refuse(megatron_index(6, 5, 20), "not known");
  refuse(megatron_index(200, 5, 20), "not known");
  refuse(megatron_index(8, 5, 20).substr(0, 55), "outside of the file");
  std::string many = megatron_index(8, 5, 20);
  put<std::uint64_t>(many, 18, UINT64_MAX);
  refuse(many, "no room");
  put<std::uint64_t>(many, 9, 2);
  refuse(many, "another version");
  refuse(std::string(100, 'x'), "no index");
}

TEST_CASE("a record batch of an Arrow stream or file is a record") {
  const Packs packs;
  const std::string stream = arrow_message(1, 0, 0) + arrow_message(3, 64, 64) + arrow_message(2, 8, 8) +
                             arrow_message(3, 0, 0) + end_of_stream();
  const auto map = packs.map("data.arrow", stream);
  REQUIRE(map.has_value());
  REQUIRE(map->count() == 2);
  check_extent(*map, 0, 56, 120);
  check_extent(*map, 1, 240, 56);
  const auto file = packs.map("data.feather", std::string("ARROW1\0\0", 8) + stream + "the footer");
  REQUIRE(file.has_value());
  CHECK(file->count() == 2);
  CHECK(file->extent(0).offset == 64);
}

TEST_CASE("a hostile Arrow stream is refused") {
  const Packs packs;
  const std::string sound = arrow_message(3, 64, 64);
  const auto refuse = [&](const std::string& bytes, std::string_view why) { packs.refuse("a.arrow", bytes, why); };
  const auto refuse_with = [&](std::size_t at, auto number, std::string_view why) {
    std::string bytes = sound;
    put(bytes, at, number);
    refuse(bytes, why);
  };
  refuse(sound + arrow_message(3, 64, 63), "cut off");
  refuse(arrow_message(3, UINT64_MAX, 64), "cut off");
  refuse(sound + "\xff\xff\xff", "outside of the file");
  refuse(sound + std::string(8, 'x'), "no marker");
  refuse_with(4, std::uint32_t{0x7fffffff}, "cut off");
  refuse_with(4, std::uint32_t{2}, "makes no sense");            // a header without room for a table
  refuse_with(8, std::uint32_t{46}, "makes no sense");           // the table at its end
  refuse_with(8, UINT32_MAX, "makes no sense");                  // and outside of it
  refuse_with(24, std::uint32_t{0x80000000}, "makes no sense");  // the vtable
  refuse_with(24, std::uint32_t{100}, "makes no sense");
  refuse_with(24, std::uint32_t{0} - 31, "makes no sense");
  refuse_with(18, std::uint16_t{60000}, "makes no sense");  // the kind
  refuse_with(22, std::uint16_t{48 - 16 - 7}, "makes no sense");
}

TEST_CASE("no damage to a pack makes a map that points outside of it, and its error is one line") {
  const Packs packs;
  packs.write("a.idx", megatron_index(8, 5, 20));
  const std::vector<std::pair<std::string, std::string>> sound = {
      {"tar", tar_member("a/0.jpg", std::string(600, 'j')) + tar_member("x", "12 size=700\n", 'x') +
                  tar_member("b", "x") + kTarEnd},
      {"tfrecord", tf_record(5, "12345") + tf_record(0, "") + tf_record(2, "ab")},
      {"mds", mds_shard({20, 25, 25, 40}, 40, 3)},
      {"ffcv", beton(3, {{2, 4096, 100}, {0, 5000, 10}})},
      {"arrow", arrow_message(1, 0, 0) + arrow_message(3, 64, 64) + end_of_stream()},
      {"hdf5", test::hdf5_pack()},
      {"megatron", std::string(30, 't')}};
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::pair<std::string, std::string>& pack = sound[random() % sound.size()];
    const std::string& format = pack.first;
    const std::string& bytes = pack.second;
    CAPTURE(format);
    CAPTURE(i);
    std::string damaged = format == "megatron" ? megatron_index(8, 5, 20) : bytes;
    // Where the fields are: most of a pack is content.
    for (std::uint64_t change = random() % 4 + 1; change > 0; --change) {
      const std::uint64_t fields = random() % 4 == 0 ? damaged.size() : std::min<std::uint64_t>(damaged.size(), 80);
      damaged[random() % fields] = static_cast<char>(random() % 2 == 0 ? random() : 0xff);
    }
    if (random() % 8 == 0) damaged.resize(random() % damaged.size());
    if (format == "megatron") packs.write("a.idx", damaged);
    const auto map = packs.map("a.bin", format == "megatron" ? bytes : damaged, format);
    if (!map) {
      CHECK(map.error().message().find('\n') == std::string::npos);
      continue;
    }
    for (std::uint64_t record = 0; record < map->count(); ++record) {
      const RecordExtent extent = map->extent(record);
      REQUIRE(extent.offset <= map->file_bytes());
      REQUIRE(extent.length <= map->file_bytes() - extent.offset);
    }
  }
}

}  // namespace headrace::cache::record_formats_test
