// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/index_maker.h"

#include <doctest/doctest.h>

#include "headrace/decode/jpeg_decoder.h"

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"
#include "support/temp_dir.h"

namespace headrace::decode::index_maker_test {
namespace {

using test::Bytes;
using test::JpegSpec;
using test::make_jpeg;

constexpr std::size_t kEnoughBytes = 1 << 20;

bool can_be_indexed(const JpegSpec& spec) {
  return !spec.progressive && !spec.arithmetic;
}

TEST_CASE("an index made ahead serves every crop, and the crops are right") {
  for (const JpegSpec& spec : test::jpeg_kinds()) {
    CAPTURE(test::describe(spec));
    const Bytes file = make_jpeg(spec);
    CropIndexes indexes(kEnoughBytes);
    JpegDecoder decoder({});
    JpegDecoder plain({.walk_scans = false});
    decoder.use_indexes(indexes);
    REQUIRE(decoder.open(file));
    CHECK(decoder.make_index() == (can_be_indexed(spec) ? CropWay::kMade : CropWay::kUnsuited));
    REQUIRE(decoder.open(file));
    CHECK(decoder.make_index() == (can_be_indexed(spec) ? CropWay::kIndexed : CropWay::kUnsuited));
    const std::uint64_t made_ahead = indexes.report().count(CropWay::kIndexed);
    const auto right = spec.size.width;
    const auto bottom = spec.size.height;
    const Box boxes[] = {{right - 9, bottom - 7, 9, 7}, {1, 0, 8, 8}, {right / 2, bottom / 2, 10, 3}};
    for (const Box& box : boxes) {
      Image image;
      Image expected;
      REQUIRE(decoder.open(file));
      REQUIRE(decoder.decode(box, 1, image));
      REQUIRE(plain.open(file));
      REQUIRE(plain.decode(box, 1, expected));
      for (std::uint32_t y = 0; y < box.height; ++y) {
        CHECK(std::equal(image.row(y), image.row(y) + image.row_bytes(), expected.row(y)));
      }
    }
    CHECK(indexes.report().count(CropWay::kMade) == (can_be_indexed(spec) ? 1 : 0));
    CHECK(indexes.report().count(CropWay::kIndexed) == made_ahead + (can_be_indexed(spec) ? 3 : 0));
  }
}

TEST_CASE("indexes take at most 1.5 % of the bytes of photographs, and none much more") {
  std::size_t index_bytes = 0;
  std::size_t file_bytes = 0;
  for (const int sampling : {1, 2}) {
    for (const int quality : {75, 90, 97}) {
      const Bytes file = make_jpeg(
          {.size = {500, 375}, .horizontal_sampling = sampling, .vertical_sampling = sampling, .quality = quality});
      CAPTURE(file.size());
      CropIndexes indexes(kEnoughBytes);
      JpegDecoder decoder({});
      decoder.use_indexes(indexes);
      REQUIRE(decoder.open(file));
      REQUIRE(decoder.make_index() == CropWay::kMade);
      std::vector<std::byte> packed;
      REQUIRE(indexes.find(content_id(file), packed));
      CHECK(packed.size() * 1000 <= file.size() * 17);
      index_bytes += packed.size();
      file_bytes += file.size();
    }
  }
  CHECK(index_bytes * 1000 <= file_bytes * 15);
}

TEST_CASE("a file that proves damaged while its index is made has none, and is not walked again") {
  const Bytes sound = make_jpeg({.size = {97, 61}, .restart_interval = 2});
  Bytes damaged = sound;
  damaged.erase(damaged.end() - 60, damaged.end() - 40);  // codes are missing
  CropIndexes indexes(kEnoughBytes);
  JpegDecoder decoder({});
  decoder.use_indexes(indexes);
  REQUIRE(decoder.open(damaged));
  CHECK(decoder.make_index() == CropWay::kDamaged);
  std::vector<std::byte> packed;
  REQUIRE(indexes.find(content_id(damaged), packed));
  CHECK(packed.empty());
  REQUIRE(decoder.open(damaged));
  CHECK(decoder.make_index() == CropWay::kDamaged);
  CHECK_FALSE(indexes.find(content_id(sound), packed));
}

TEST_CASE("indexes made ahead lie in the folder, in the order of the source, and what has none is named") {
  const test::TempDir folder;
  test::Files files = {make_jpeg({.seed = 1}), make_jpeg({.seed = 3}), Bytes(100, std::byte{7}),
                       make_jpeg({.seed = 2}), make_jpeg({.seed = 1}), make_jpeg({.progressive = true})};
  files[1].resize(files[1].size() - 2);  // without a marker that ends it
  files[3].resize(80);                   // ends within its header
  auto maker = IndexMaker::start(std::make_unique<test::MemorySource>(files), {.folder = folder.path(), .threads = 2});
  REQUIRE(maker);
  std::vector<IndexedSample> samples;
  while (const IndexedSample* sample = (*maker)->next()) samples.push_back(*sample);
  REQUIRE(samples.size() == files.size());
  for (std::size_t i = 0; i < files.size(); ++i) CHECK(samples[i].index == i);
  CHECK(samples[1].way == CropWay::kUnsuited);
  CHECK(samples[2].status.error().code == io::ErrorCode::kUnsupported);
  CHECK(samples[3].status.error().context.find("file-3") != std::string::npos);
  auto opened = CropIndexFolder::open(folder.path());
  REQUIRE(opened);
  std::vector<std::byte> packed;
  CHECK((*opened)->find(content_id(files[0]), packed));
  CHECK_FALSE(packed.empty());
  CHECK_FALSE((*opened)->find(content_id(files[1]), packed));
  CHECK(samples[5].way == CropWay::kMade);
}

TEST_CASE("a folder that cannot be used for indexes ends the making at its start") {
  const test::Files files = {make_jpeg({})};
  const auto maker = IndexMaker::start(std::make_unique<test::MemorySource>(files), {.folder = "/proc/none"});
  REQUIRE_FALSE(maker);
  CHECK(maker.error().context.find("/proc/none") != std::string::npos);
}

}  // namespace
}  // namespace headrace::decode::index_maker_test
