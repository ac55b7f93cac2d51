// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/jpeg_decoder.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "decode/jpeg_files.h"

namespace headrace::decode::jpeg_decoder_test {
namespace {

using test::Bytes;
using test::JpegSpec;
using test::make_jpeg;
using test::ReferenceImage;

// What the reference says that a row of the box looks like.
std::vector<std::uint8_t> expected_row(const ReferenceImage& whole_image, const Box& box, std::uint32_t y) {
  const auto channels = static_cast<std::size_t>(whole_image.channels);
  const std::uint8_t* from =
      whole_image.pixels.data() + ((box.y + y) * std::size_t{whole_image.size.width} + box.x) * channels;
  if (channels == 3) return {from, from + box.width * channels};
  std::vector<std::uint8_t> rgb;
  for (std::uint32_t x = 0; x < box.width; ++x, from += 4) {
    const double light = from[3];
    for (int c = 0; c < 3; ++c) {
      rgb.push_back(static_cast<std::uint8_t>(light - static_cast<int>((255 - from[c]) * light / 255 + 0.5)));
    }
  }
  return rgb;
}

bool equals(const Image& image, const ReferenceImage& whole_image, const Box& box) {
  if (image.size() != box.size()) return false;
  for (std::uint32_t y = 0; y < box.height; ++y) {
    const std::vector<std::uint8_t> expected = expected_row(whole_image, box, y);
    if (!std::equal(expected.begin(), expected.end(), image.row(y))) return false;
  }
  return true;
}

std::vector<Box> boxes_of(Size size, unsigned seed) {
  std::vector<Box> boxes = {whole(size), {0, 0, 1, 1}, {size.width - 1, size.height - 1, 1, 1}};
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  for (int i = 0; i < 60; ++i) {
    const std::uint32_t x = below(size.width);
    const std::uint32_t y = below(size.height);
    boxes.push_back({x, y, 1 + below(size.width - x), 1 + below(size.height - y)});
  }
  return boxes;
}

TEST_CASE("every kind of JPEG decodes to what libjpeg decodes") {
  JpegDecoder decoder({});
  Image image;
  for (const JpegSpec& spec : test::jpeg_kinds()) {
    CAPTURE(test::describe(spec));
    const Bytes file = make_jpeg(spec);
    const auto header = decoder.open(file);
    REQUIRE(header);
    CHECK(header->size == spec.size);
    CHECK(header->progressive == spec.progressive);
    REQUIRE(decoder.decode(whole(header->size), 1, image));
    CHECK(equals(image, test::reference_decode(file), whole(spec.size)));
    CHECK(decoder.damage().empty());
  }
}

// A profile is split into numbered segments; one that says to be the second of none is broken.
TEST_CASE("ICC profiles are ignored, broken ones too") {
  constexpr unsigned char kApp2 = 0xe2;
  const Bytes plain = make_jpeg({.horizontal_sampling = 2, .vertical_sampling = 2});
  const ReferenceImage reference = test::reference_decode(plain);
  JpegDecoder decoder({.damage = Damage::kReject});
  Image image;
  for (const std::string& numbers : {std::string("\1\1"), std::string("\2\0", 2), std::string()}) {
    const std::string profile = std::string("ICC_PROFILE\0", 12) + numbers + std::string(500, 'p');
    const Bytes file = test::with_segment(plain, kApp2, profile);
    REQUIRE(decoder.open(file));
    REQUIRE(decoder.decode(whole(reference.size), 1, image));
    CHECK(equals(image, reference, whole(reference.size)));
    CHECK(decoder.damage().empty());
  }
}

void check_parts(JpegDecoder& decoder, const JpegSpec& spec, std::uint32_t reduce) {
  const Bytes file = make_jpeg(spec);
  const ReferenceImage reference = test::reference_decode(file, reduce);
  REQUIRE(reference.size == reduced(spec.size, reduce));
  Image image;
  for (const Box& box : boxes_of(reference.size, reduce)) {
    CAPTURE(test::describe(spec));
    CAPTURE(reduce);
    CAPTURE(std::to_string(box.x) + "," + std::to_string(box.y) + " " + std::to_string(box.width) + "x" +
            std::to_string(box.height));
    REQUIRE(decoder.open(file));
    REQUIRE(decoder.decode(box, reduce, image));
    CHECK(equals(image, reference, box));
  }
}

TEST_CASE("a part of a JPEG equals the same part of the whole image, reduced or not") {
  JpegDecoder decoder({});
  for (JpegSpec spec : test::jpeg_kinds()) {
    for (const Size size : {spec.size, Size{9, 2}, Size{1, 9}}) {
      spec.size = size;
      for (const std::uint32_t reduce : {1U, 2U, 4U, 8U}) check_parts(decoder, spec, reduce);
    }
  }
}

}  // namespace
}  // namespace headrace::decode::jpeg_decoder_test
