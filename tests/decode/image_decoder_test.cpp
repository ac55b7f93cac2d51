// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/image_decoder.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "decode/jpeg_files.h"
#include "decode/other_files.h"

namespace headrace::decode::image_decoder_test {
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
  check_decodes_to(test::make_interlaced_png(rgb), rgb);
  check_decodes_to(make_webp(rgb), rgb);
  const auto height = static_cast<std::int32_t>(kSize.height);
  check_decodes_to(make_bmp(height, 24, "", bgr_rows(rgb, false, 3)), rgb);
  check_decodes_to(make_bmp(-height, 24, "", bgr_rows(rgb, true, 3)), rgb);
  check_decodes_to(make_bmp(height, 32, "", bgr_rows(rgb, false, 4)), rgb);
  check_decodes_to(make_npy("(23, 37, 3)", rgb), rgb);
}

TEST_CASE("a WebP file that comes in several steps decodes to its pixels, and not where its end is missing") {
  constexpr Size kLarge = {301, 203};
  std::vector<std::uint8_t> rgb(kLarge.pixels() * Image::kChannels);
  std::ranges::generate(rgb, std::minstd_rand(6));  // noise, which no codec makes smaller
  Bytes file = make_webp(rgb, kLarge);
  REQUIRE(file.size() > std::size_t{2} * 64 * 1024);  // steps of 64 KiB
  ImageDecoder decoder({});
  Image image;
  REQUIRE(decoder.decode(file, image));
  CHECK(std::ranges::equal(image.bytes(), rgb));
  file.resize(file.size() - 1000);
  CHECK_FALSE(decoder.decode(file, image));
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

// Where the upright pixel (x, y) lies in the stored image, from the EXIF specification's table of row 0 and column 0.
std::pair<unsigned, unsigned> stored_at(unsigned orientation, Size stored, unsigned x, unsigned y) {
  const unsigned right = stored.width - 1;
  const unsigned bottom = stored.height - 1;
  switch (orientation) {
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    case 8:
      return {right - y, x};
    default:
      return {x, y};
  }
}

bool is_part_of(const Image& image, const Box& box, const std::vector<std::uint8_t>& rgb, Size stored,
                unsigned orientation) {
  if (image.size() != box.size()) return false;
  for (unsigned y = 0; y < box.height; ++y) {
    for (unsigned x = 0; x < box.width; ++x) {
      const auto [from_x, from_y] = stored_at(orientation, stored, box.x + x, box.y + y);
      if (std::memcmp(image.row(y) + x * 3, &rgb[(from_y * stored.width + from_x) * 3], 3) != 0) return false;
    }
  }
  return true;
}

// `file` holds `rgb`, of size `stored`, with this orientation.
void check_turned(const Bytes& file, const std::vector<std::uint8_t>& rgb, Size stored, unsigned orientation) {
  CAPTURE(orientation);
  const bool lying = orientation >= 5 && orientation <= 8;
  ImageDecoder decoder({.apply_orientation = true});
  Image image;
  const auto size = decoder.open(file);
  REQUIRE(size);
  CHECK(*size == (lying ? Size{stored.height, stored.width} : stored));
  for (const Box& box : {whole(*size), Box{3, 7, 11, 9}}) {
    REQUIRE(decoder.open(file));
    REQUIRE(decoder.decode_region(box, 1, image));
    CHECK(is_part_of(image, box, rgb, stored, orientation));
  }
  ImageDecoder as_stored({});
  REQUIRE(as_stored.decode(file, image));
  CHECK(is_part_of(image, whole(stored), rgb, stored, 1));
}

TEST_CASE("each EXIF orientation is undone on request, for the whole image and for its parts") {
  constexpr Size kJpegSize = {40, 24};
  const Bytes jpeg = test::make_jpeg({.size = kJpegSize});
  const std::vector<std::uint8_t> jpeg_rgb = test::reference_decode(jpeg).pixels;
  const std::vector<std::uint8_t> rgb = make_pixels(kSize, 3, 4);
  for (unsigned orientation = 0; orientation <= 9; ++orientation) {
    const std::string exif = test::exif_tiff(orientation);
    check_turned(test::with_orientation(jpeg, orientation), jpeg_rgb, kJpegSize, orientation);
    check_turned(make_png(rgb, exif), rgb, kSize, orientation);
    check_turned(test::with_exif_chunk(make_webp(rgb), exif), rgb, kSize, orientation);
  }
  const std::string little = test::exif_tiff(6, std::endian::little);
  check_turned(test::with_orientation(jpeg, 6, std::endian::little), jpeg_rgb, kJpegSize, 6);
  check_turned(make_png(rgb, little), rgb, kSize, 6);
  check_turned(test::with_exif_chunk(make_webp(rgb), std::string("Exif\0\0", 6) + little), rgb, kSize, 6);
}

TEST_CASE("an EXIF chunk that is cut off anywhere leaves the image as it is stored, or turns it") {
  const Bytes webp = test::with_exif_chunk(make_webp(make_pixels(kSize, 3, 4)), test::exif_tiff(6));
  const Bytes png = make_png(make_pixels(kSize, 3, 4), test::exif_tiff(6));
  for (std::size_t bytes = 0; bytes <= webp.size(); ++bytes) {
    const Orientation found = exif_orientation(std::span(webp).first(bytes), ImageFormat::kWebp);
    CHECK(found == (bytes == webp.size() ? Orientation::kTurnClockwise : Orientation::kUpright));
  }
  for (std::size_t bytes = 0; bytes <= png.size(); ++bytes) {
    const Orientation found = exif_orientation(std::span(png).first(bytes), ImageFormat::kPng);
    CHECK((found == Orientation::kUpright || found == Orientation::kTurnClockwise));
  }
}

}  // namespace
}  // namespace headrace::decode::image_decoder_test
