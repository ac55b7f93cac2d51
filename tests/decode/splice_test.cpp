// SPDX-License-Identifier: Apache-2.0
// Who proves that a part cut out of a JPEG is right: libjpeg by itself, on the part and on the whole file.
#include <algorithm>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "headrace/decode/internal/scan_writer.h"
#include "headrace/decode/jpeg_decoder.h"

#include "decode/corrupt_files.h"
#include "decode/jpeg_files.h"

namespace headrace::decode::splice_test {
namespace {

using test::Bytes;
using test::JpegSpec;
using test::make_jpeg;

constexpr DecodeOptions kPlain = {.walk_scans = false};

bool can_be_cut(const JpegSpec& spec) {
  return !spec.progressive && !spec.arithmetic;
}

Image decode_plain(std::span<const std::byte> file, const Box* box = nullptr) {
  JpegDecoder plain(kPlain);
  const auto header = plain.open(file);
  REQUIRE(header);
  Image image;
  REQUIRE(plain.decode(box != nullptr ? *box : whole(header->size), 1, image));
  CHECK(plain.damage().empty());
  return image;
}

bool same_part(const Image& a, const Box& in_a, const Image& b, const Box& in_b) {
  for (std::uint32_t y = 0; y < in_a.height; ++y) {
    const std::uint8_t* left = a.row(in_a.y + y) + std::size_t{in_a.x} * 3;
    if (!std::equal(left, left + std::size_t{in_a.width} * 3, b.row(in_b.y + y) + std::size_t{in_b.x} * 3))
      return false;
  }
  return true;
}

std::vector<Box> some_boxes(Size size, int count, unsigned seed) {
  std::vector<Box> boxes = {whole(size), {0, 0, 1, 1}, {size.width - 1, size.height - 1, 1, 1}};
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  for (int i = 0; i < count; ++i) {
    const std::uint32_t x = below(size.width);
    const std::uint32_t y = below(size.height);
    boxes.push_back({x, y, 1 + below(size.width - x), 1 + below(size.height - y)});
  }
  return boxes;
}

void check_part(JpegDecoder& decoder, const Bytes& file, const Image& image, const Box& box) {
  CAPTURE(box.x);
  CAPTURE(box.y);
  CAPTURE(box.width);
  CAPTURE(box.height);
  REQUIRE(decoder.open(file));
  const auto spliced = decoder.splice(box);
  REQUIRE(spliced);
  CHECK(spliced->box.size() == box.size());
  CHECK(same_part(decode_plain(spliced->bytes), spliced->box, image, box));
}

TEST_CASE("a part cut out of a JPEG has the pixels of the whole one, for every kind of file") {
  for (JpegSpec spec : test::jpeg_kinds()) {
    for (const Size size : {spec.size, Size{70, 131}, Size{9, 2}, Size{1, 9}, Size{16, 16}, Size{33, 35}}) {
      spec.size = size;
      CAPTURE(test::describe(spec));
      const Bytes file = make_jpeg(spec);
      CropIndexes indexes(std::size_t{1} << 20);
      JpegDecoder decoder({});
      decoder.use_indexes(indexes);
      if (!can_be_cut(spec)) {
        REQUIRE(decoder.open(file));
        const auto refused = decoder.splice(whole(size));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == io::ErrorCode::kUnsupported);
        continue;
      }
      const Image image = decode_plain(file);
      for (const Box& box : some_boxes(size, 25, 7)) check_part(decoder, file, image, box);
      CHECK(indexes.report().files == 1);
    }
  }
}

TEST_CASE("every part of a small JPEG has the pixels of the whole one") {
  for (const JpegSpec& spec : {JpegSpec{.size = {19, 34}, .horizontal_sampling = 2, .vertical_sampling = 2},
                               JpegSpec{.size = {34, 10}, .horizontal_sampling = 2, .restart_interval = 1},
                               JpegSpec{.size = {21, 18}, .optimised = true, .restart_interval = 2}}) {
    CAPTURE(test::describe(spec));
    const Bytes file = make_jpeg(spec);
    const Image image = decode_plain(file);
    JpegDecoder decoder({});
    for (std::uint32_t x = 0; x < spec.size.width; x += 3) {
      for (std::uint32_t y = 0; y < spec.size.height; ++y) {
        for (std::uint32_t width = 1; x + width <= spec.size.width; width += 2) {
          for (std::uint32_t height = 1; y + height <= spec.size.height; height += 3) {
            check_part(decoder, file, image, {x, y, width, height});
          }
        }
      }
    }
  }
}

TEST_CASE("a part is small, whatever else the file holds, and is found without what lies before it") {
  const Bytes plain_file = make_jpeg({.size = {400, 400}, .restart_interval = 5});
  const Bytes file = test::with_segment(plain_file, 0xe1, std::string(60'000, 'x'));
  CropIndexes indexes(std::size_t{1} << 20);
  JpegDecoder decoder({});
  decoder.use_indexes(indexes);
  REQUIRE(decoder.open(file));
  CHECK(decoder.make_index() == CropWay::kMade);
  REQUIRE(decoder.open(file));
  const auto spliced = decoder.splice({300, 300, 50, 50});
  REQUIRE(spliced);
  CHECK(spliced->bytes.size() < plain_file.size() / 5);
  CHECK(same_part(decode_plain(spliced->bytes), spliced->box, decode_plain(file), {300, 300, 50, 50}));
}

TEST_CASE("another file's index, or one of changed bytes, does not lead to a wrong part") {
  const Bytes file = make_jpeg({.seed = 1});
  const Bytes other = make_jpeg({.seed = 2});
  CropIndexes indexes(std::size_t{1} << 20);
  JpegDecoder decoder({});
  decoder.use_indexes(indexes);
  REQUIRE(decoder.open(other));
  CHECK(decoder.make_index() == CropWay::kMade);
  std::vector<std::byte> packed;
  REQUIRE(indexes.find(content_id(other), packed));
  CropIndexes swapped(std::size_t{1} << 20);
  REQUIRE(swapped.keep(content_id(file), packed));
  decoder.use_indexes(swapped);
  check_part(decoder, file, decode_plain(file), {50, 40, 30, 15});
}

TEST_CASE("a damaged file gives no part, or one with the pixels that libjpeg gives where it finds no damage") {
  std::uint64_t seed = 0;
  std::uint64_t cut = 0;
  std::uint64_t refused = 0;
  for (const JpegSpec& spec : test::jpeg_kinds()) {
    if (!can_be_cut(spec)) continue;
    CAPTURE(test::describe(spec));
    const Bytes sound = make_jpeg(spec);
    for (int i = 0; i < 60; ++i) {
      const test::DamagedFile file = test::damage_randomly(sound, ++seed);
      CAPTURE(file.what);
      JpegDecoder decoder({.pixels_max = 1'000'000});
      const Box box = {20, 10, 40, 30};
      const auto header = decoder.open(file.bytes);
      if (!header || !contains(header->size, box)) continue;
      const auto spliced = decoder.splice(box);
      ++(spliced ? cut : refused);
      if (!spliced) continue;
      const Image part = decode_plain(spliced->bytes);
      JpegDecoder plain({.pixels_max = 1'000'000, .walk_scans = false});
      Image expected;
      REQUIRE(plain.open(file.bytes));
      if (!plain.decode(box, 1, expected) || !plain.damage().empty()) continue;
      CHECK(same_part(part, spliced->box, expected, whole(box.size())));
    }
  }
  CHECK(cut > 100);
  CHECK(refused > 100);
}

TEST_CASE("codes for differences are completed behind those that are there, and none consists of ones alone") {
  const auto room_left = [](const HuffmanCodes& codes) {
    std::uint32_t left = 1U << 16;
    for (unsigned length = 1; length <= 16; ++length) left -= codes.counts[length] * (1U << (16 - length));
    return left;
  };
  HuffmanCodes few;  // 0 -> symbol 3, 10 -> symbol 0; 11 is left over
  few.counts[1] = 1;
  few.counts[2] = 1;
  few.symbols[0] = 3;
  few.symbols[1] = 0;
  HuffmanCodes completed = few;
  REQUIRE(complete_dc_codes(completed));
  CHECK(completed.counts[1] == 1);
  CHECK(completed.counts[2] == 1);
  CHECK(completed.counts[6] == 10);
  CHECK(room_left(completed) > 0);
  std::vector<unsigned> symbols(completed.symbols.begin(), completed.symbols.begin() + 12);
  std::ranges::sort(symbols);
  for (unsigned i = 0; i < 12; ++i) CHECK(symbols[i] == i);
  HuffmanCodes again = completed;
  CHECK(complete_dc_codes(again));
  CHECK(again == completed);

  HuffmanCodes full;  // each length has one code, up to 16 bits: the last one of ones alone is all that is left
  for (unsigned length = 1; length <= 16; ++length) full.counts[length] = 1;
  for (unsigned i = 0; i < 16; ++i) full.symbols[i] = static_cast<std::uint8_t>(20 + i);
  CHECK_FALSE(complete_dc_codes(full));

  HuffmanCodes repeated;  // a hostile table: the same symbol again and again, and no place for the others
  repeated.counts[10] = 250;
  CHECK_FALSE(complete_dc_codes(repeated));
  repeated.counts[10] = 240;
  CHECK(complete_dc_codes(repeated));
}

}  // namespace
}  // namespace headrace::decode::splice_test
