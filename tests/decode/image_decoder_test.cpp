// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/image_decoder.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "decode/jpeg_files.h"
#include "decode/other_files.h"

namespace headrace::decode {
namespace {

using test::bgr_rows;
using test::Bytes;
using test::bytes_of;
using test::make_bmp;
using test::make_npy;
using test::make_pixels;
using test::make_png;
using test::make_webp;

constexpr Size kSize = test::kPictureSize;

// Whole, and a part of it.
void check_decodes_to(const Bytes& file, const std::vector<std::uint8_t>& rgb) {
  ImageDecoder decoder({});
  Image image;
  REQUIRE(decoder.decode(file, image));
  REQUIRE(image.size() == kSize);
  CHECK(std::ranges::equal(image.bytes(), rgb));
  const Box box = {5, 3, 20, 11};
  REQUIRE(decoder.open(file));
  REQUIRE(decoder.decode_region(box, 1, image));
  REQUIRE(image.size() == box.size());
  for (unsigned y = 0; y < box.height; ++y) {
    CHECK(std::memcmp(image.row(y), &rgb[((y + box.y) * kSize.width + box.x) * 3], box.width * 3) == 0);
  }
}

TEST_CASE("PNG, WebP, bitmaps and arrays decode to their pixels, whole and in part") {
  const std::vector<std::uint8_t> rgb = make_pixels(kSize, 3, 4);
  check_decodes_to(make_png(rgb), rgb);
  check_decodes_to(make_webp(rgb), rgb);
  const auto height = static_cast<std::int32_t>(kSize.height);
  check_decodes_to(make_bmp(height, 24, "", bgr_rows(rgb, false, 3)), rgb);
  check_decodes_to(make_bmp(-height, 24, "", bgr_rows(rgb, true, 3)), rgb);
  check_decodes_to(make_bmp(height, 32, "", bgr_rows(rgb, false, 4)), rgb);
  check_decodes_to(make_npy("(23, 37, 3)", rgb), rgb);
}

TEST_CASE("16 bits of a PNG become the upper 8") {
  const std::vector<std::uint8_t> rgb = make_pixels(kSize, 3, 5);
  check_decodes_to(test::make_png_of_16_bits(rgb), rgb);
}

TEST_CASE("grey arrays and bitmaps with a palette decode to equal channels") {
  const std::vector<std::uint8_t> grey = make_pixels(kSize, 1, 9);
  std::vector<std::uint8_t> rgb;
  for (std::uint8_t value : grey) rgb.insert(rgb.end(), 3, value);
  check_decodes_to(make_npy("(23, 37)", grey), rgb);
  check_decodes_to(make_npy("(23, 37, 1)", grey), rgb);
  std::string palette;
  for (int i = 0; i < 256; ++i) palette += std::string(3, static_cast<char>(i)) + '\0';
  std::string rows;
  for (std::size_t y = kSize.height; y-- > 0;) {
    rows.append(reinterpret_cast<const char*>(&grey[y * kSize.width]), kSize.width);
    rows.append(3, '\0');  // 37 bytes, rounded up to a multiple of 4
  }
  check_decodes_to(make_bmp(static_cast<std::int32_t>(kSize.height), 8, palette, rows), rgb);
}

TEST_CASE("CIFAR records are known by their size, where they are asked for") {
  for (std::size_t labels : {1U, 2U}) {
    Bytes record(labels + 3072);
    for (std::size_t i = 0; i < 3072; ++i) record[labels + i] = static_cast<std::byte>(i / 1024 * 70 + i % 64);
    ImageDecoder decoder({.cifar_records = true});
    Image image;
    REQUIRE(decoder.decode(record, image));
    CHECK(image.size() == Size{32, 32});
    CHECK(image.row(1)[3 * 5 + 2] == 140 + 37);
    ImageDecoder by_default({});
    CHECK(by_default.decode(record, image).error().code == io::ErrorCode::kUnsupported);
  }
}

TEST_CASE("what is no image, or no supported one, is refused with a reason") {
  ImageDecoder decoder({});
  Image image;
  const auto code_of = [&](const Bytes& file) { return decoder.decode(file, image).error().code; };
  CHECK(code_of({}) == io::ErrorCode::kUnsupported);
  CHECK(code_of(bytes_of(std::string("hello, world"))) == io::ErrorCode::kUnsupported);
  CHECK(code_of(make_npy("(23, 37, 4)", {})) == io::ErrorCode::kUnsupported);
  CHECK(code_of(make_npy("(23, 37, 3)", {}, "<f4")) == io::ErrorCode::kUnsupported);
  CHECK(code_of(make_npy("(23, 37, 3)", {1, 2, 3})) == io::ErrorCode::kCorrupt);
  CHECK(code_of(make_npy("(0, 37, 3)", {})) == io::ErrorCode::kCorrupt);
  CHECK(code_of(make_npy("(4000000000, 4000000000)", {})) == io::ErrorCode::kInvalidArgument);
  CHECK(code_of(make_bmp(23, 24, "", "short")) == io::ErrorCode::kCorrupt);
  CHECK(code_of(make_bmp(23, 8, "", "short", 1)) == io::ErrorCode::kUnsupported);
}

// A baseline JPEG whose frame header says something else.
Bytes with_frame(unsigned char marker, unsigned char precision) {
  Bytes file = test::make_jpeg({});
  for (std::size_t i = 0; i + 4 < file.size(); ++i) {
    if (file[i] != std::byte{0xff} || file[i + 1] != std::byte{0xc0}) continue;
    file[i + 1] = std::byte{marker};
    file[i + 4] = std::byte{precision};
    return file;
  }
  return file;
}

TEST_CASE("lossless, hierarchical and 12- or 16-bit JPEG files are refused as unsupported") {
  ImageDecoder decoder({});
  Image image;
  for (const auto& [marker, precision] : {std::pair{0xc3, 8}, {0xc5, 8}, {0xc0, 12}, {0xc1, 12}, {0xc3, 16}}) {
    const Status status =
        decoder.decode(with_frame(static_cast<unsigned char>(marker), static_cast<unsigned char>(precision)), image);
    REQUIRE_FALSE(status);
    CHECK(status.error().code == io::ErrorCode::kUnsupported);
  }
  REQUIRE(decoder.decode(with_frame(0xc0, 8), image));
}

TEST_CASE("an image over the limit of pixels is refused before it is decoded") {
  ImageDecoder decoder({.pixels_max = kSize.pixels() - 1});
  Image image;
  const std::vector<std::uint8_t> rgb = make_pixels(kSize, 3, 4);
  for (const Bytes& file : {make_png(rgb), make_webp(rgb), test::make_jpeg({.size = kSize})}) {
    const Status status = decoder.decode(file, image);
    REQUIRE_FALSE(status);
    CHECK(status.error().code == io::ErrorCode::kInvalidArgument);
  }
  CHECK(image.size() == Size{});
}

TEST_CASE("each EXIF orientation is undone, for the whole image and for its parts") {
  const Bytes plain = test::make_jpeg({.size = {40, 24}});
  const test::ReferenceImage stored = test::reference_decode(plain);
  ImageDecoder decoder({});
  Image image;
  // Where the upright pixel (x, y) lies in the stored image, from the EXIF specification's table of row 0 and column 0.
  const auto stored_at = [](unsigned orientation, unsigned x, unsigned y) -> std::pair<unsigned, unsigned> {
    const unsigned w = 40;
    const unsigned h = 24;
    switch (orientation) {
      case 2:
        return {w - 1 - x, y};
      case 3:
        return {w - 1 - x, h - 1 - y};
      case 4:
        return {x, h - 1 - y};
      case 5:
        return {y, x};
      case 6:
        return {y, h - 1 - x};
      case 7:
        return {w - 1 - y, h - 1 - x};
      case 8:
        return {w - 1 - y, x};
      default:
        return {x, y};
    }
  };
  for (unsigned orientation = 0; orientation <= 9; ++orientation) {
    CAPTURE(orientation);
    const Bytes file = test::with_orientation(plain, orientation);
    const auto size = decoder.open(file);
    REQUIRE(size);
    CHECK(*size == (orientation >= 5 && orientation <= 8 ? Size{24, 40} : Size{40, 24}));
    for (const Box& box : {whole(*size), Box{3, 7, 11, 9}}) {
      REQUIRE(decoder.open(file));
      REQUIRE(decoder.decode_region(box, 1, image));
      bool same = true;
      for (unsigned y = 0; y < box.height; ++y) {
        for (unsigned x = 0; x < box.width; ++x) {
          const auto [from_x, from_y] = stored_at(orientation, box.x + x, box.y + y);
          same = same && std::memcmp(image.row(y) + x * 3, &stored.pixels[(from_y * 40 + from_x) * 3], 3) == 0;
        }
      }
      CHECK(same);
    }
  }
  ImageDecoder as_stored({.apply_orientation = false});
  CHECK(as_stored.open(test::with_orientation(plain, 6)) == Size{40, 24});
  CHECK(decoder.open(test::with_orientation(plain, 6, std::endian::little)) == Size{24, 40});
}

}  // namespace
}  // namespace headrace::decode
