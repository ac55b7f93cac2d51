// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include <doctest/doctest.h>

#include "headrace/decode/pixel_kernels.h"

#include "decode/jpeg_files.h"

namespace headrace::decode::resize_test {
namespace {

Image make_image(Size size, unsigned seed) {
  const std::vector<std::uint8_t> pixels = test::make_pixels(size, 3, seed);
  Image image;
  image.reset(size);
  std::ranges::copy(pixels, image.bytes().begin());
  return image;
}

RealBox all_of(Size size) {
  return {0, 0, double(size.width), double(size.height)};
}

// The same filter in double precision, without rounding between the passes.
double exact_pixel(const Image& in, const ResizeSpec& spec, unsigned x, unsigned y, unsigned channel) {
  const auto weight_at = [&](double begin, double extent, unsigned target, unsigned i, unsigned k) {
    const double scale = extent / target;
    const double support = spec.antialias ? std::max(1.0, scale) : 1.0;
    const double distance = std::abs(k + 0.5 - (begin + (i + 0.5) * scale)) / support;
    if (spec.filter == Filter::kBilinear) return std::max(0.0, 1 - distance);
    if (distance < 1) return 1.5 * std::pow(distance, 3) - 2.5 * std::pow(distance, 2) + 1;
    return distance < 2 ? -0.5 * std::pow(distance, 3) + 2.5 * std::pow(distance, 2) - 4 * distance + 2 : 0;
  };
  double sum = 0;
  double weights = 0;
  for (unsigned from_y = 0; from_y < in.size().height; ++from_y) {
    const double weight_y = weight_at(spec.part.y, spec.part.height, spec.target.height, y, from_y);
    if (weight_y == 0) continue;
    for (unsigned from_x = 0; from_x < in.size().width; ++from_x) {
      const double weight = weight_y * weight_at(spec.part.x, spec.part.width, spec.target.width, x, from_x);
      sum += weight * in.row(from_y)[from_x * 3 + channel];
      weights += weight;
    }
  }
  return std::clamp(sum / weights, 0.0, 255.0);
}

TEST_CASE("resizing stays within one of the exact filter") {
  Resizer resizer;
  Image out;
  for (const Size from : {Size{50, 40}, Size{7, 90}, Size{1, 1}, Size{130, 2}, Size{4, 700}}) {
    const Image in = make_image(from, 3);
    for (const Size to : {Size{24, 24}, Size{61, 47}, Size{1, 3}, Size{50, 40}}) {
      for (const bool antialias : {true, false}) {
        const ResizeSpec spec = {.part = all_of(from), .target = to, .antialias = antialias};
        resizer.resize(in, spec, out);
        REQUIRE(out.size() == to);
        for (unsigned y = 0; y < to.height; ++y) {
          for (unsigned x = 0; x < to.width; ++x) {
            // 0.5 of each pass's rounding, and what the weights' few bits add.
            if (antialias || from.width > 1) {
              CHECK(std::abs(out.row(y)[x * 3 + 1] - exact_pixel(in, spec, x, y, 1)) < 1.1);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("bicubic resizing stays close to the exact filter") {
  Resizer resizer;
  Image out;
  for (const Size from : {Size{50, 40}, Size{7, 90}, Size{1, 1}, Size{130, 2}}) {
    const Image in = make_image(from, 3);
    for (const Size to : {Size{24, 24}, Size{61, 47}, Size{1, 3}, Size{50, 40}}) {
      const ResizeSpec spec = {.part = all_of(from), .target = to, .filter = Filter::kBicubic};
      resizer.resize(in, spec, out);
      REQUIRE(out.size() == to);
      double difference = 0;
      for (unsigned y = 0; y < to.height; ++y) {
        for (unsigned x = 0; x < to.width; ++x) {
          // The rounding and clipping between the passes, which PIL has too, is weighed by up to 1.4.
          const double here = std::abs(out.row(y)[x * 3 + 1] - exact_pixel(in, spec, x, y, 1));
          CHECK(here < 40);
          difference += here;
        }
      }
      CHECK(difference / (to.width * to.height) < 0.6);
    }
  }
}

// PIL 9.4: Image.fromarray(...).resize(size, Image.BICUBIC), the green channel.
TEST_CASE("bicubic resizing gives the pixels that PIL gives") {
  Image in;
  in.reset({7, 5});
  for (unsigned y = 0; y < 5; ++y) {
    for (unsigned x = 0; x < 7; ++x) {
      for (unsigned c = 0; c < 3; ++c)
        in.row(y)[x * 3 + c] = static_cast<std::uint8_t>((x * x * 37 + y * 91 + c * 53 + x * y * 17) % 256);
    }
  }
  struct Golden {
    Size size;
    std::vector<int> green;
  };
  const Golden goldens[] = {
      {{3, 2}, {133, 110, 123, 117, 111, 143}},
      {{4, 9}, {63,  169, 158, 159, 100, 136, 116, 131, 165, 79,  47, 85,  173, 109, 87, 105, 152, 155,
                155, 152, 129, 106, 134, 189, 108, 75,  100, 196, 95, 131, 86,  144, 89, 164, 80,  113}},
      {{10, 8}, {45,  58,  113, 208, 166, 131, 142, 208, 171, 103, 81,  114, 146, 144, 98,  72,  89,  171, 136, 64,
                 148, 182, 174, 76,  28,  18,  42,  114, 94,  43,  234, 146, 93,  164, 138, 135, 153, 68,  110, 193,
                 201, 124, 84,  162, 143, 150, 182, 104, 154, 243, 69,  125, 146, 69,  44,  57,  109, 202, 208, 174,
                 119, 90,  83,  132, 136, 89,  37,  157, 170, 128, 178, 65,  28,  192, 220, 127, 0,   109, 133, 103}}};
  Resizer resizer;
  Image out;
  for (const Golden& golden : goldens) {
    resizer.resize(in, {.part = all_of(in.size()), .target = golden.size, .filter = Filter::kBicubic}, out);
    for (unsigned i = 0; i < golden.green.size(); ++i) {
      const unsigned x = i % golden.size.width;
      CHECK(std::abs(out.row(i / golden.size.width)[x * 3 + 1] - golden.green[i]) <= 1);
    }
  }
}

TEST_CASE("a flat image stays exactly as it is") {
  Image in;
  in.reset({333, 77});
  std::ranges::fill(in.bytes(), std::uint8_t{251});
  Resizer resizer;
  Image out;
  for (const Size to : {Size{224, 224}, Size{10, 5}, Size{400, 80}}) {
    for (const Filter filter : {Filter::kBilinear, Filter::kBicubic}) {
      resizer.resize(in, {.part = all_of(in.size()), .target = to, .filter = filter}, out);
      CHECK(std::ranges::all_of(out.bytes(), [](std::uint8_t byte) { return byte == 251; }));
    }
  }
}

TEST_CASE("mirroring reverses the columns of the same result") {
  const Image in = make_image({83, 31}, 5);
  Resizer resizer;
  Image plain;
  Image mirrored;
  resizer.resize(in, {.part = {3, 2, 70, 20}, .target = {37, 29}}, plain);
  resizer.resize(in, {.part = {3, 2, 70, 20}, .target = {37, 29}, .mirror = true}, mirrored);
  for (unsigned y = 0; y < 29; ++y) {
    for (unsigned x = 0; x < 37; ++x) CHECK(std::memcmp(plain.row(y) + x * 3, mirrored.row(y) + (36 - x) * 3, 3) == 0);
  }
}

TEST_CASE("the part of an image around a box resizes as the box in the whole image") {
  const Image in = make_image({90, 70}, 6);
  Image cut;  // columns 10..69, rows 5..59
  cut.reset({60, 55});
  for (unsigned y = 0; y < 55; ++y) std::memcpy(cut.row(y), in.row(y + 5) + 30, 180);
  Resizer resizer;
  Image from_whole;
  Image from_cut;
  resizer.resize(in, {.part = {20.25, 15.5, 40.5, 30}, .target = {20, 15}}, from_whole);
  resizer.resize(cut, {.part = {10.25, 10.5, 40.5, 30}, .target = {20, 15}}, from_cut);
  CHECK(std::ranges::equal(from_whole.bytes(), from_cut.bytes()));
}

TEST_CASE("the vector kernels compute the same bits as the plain ones") {
  std::mt19937 random(11);
  std::vector<std::uint8_t> in(40'000);
  for (std::uint8_t& byte : in) byte = static_cast<std::uint8_t>(random());
  for (std::size_t groups = 1; groups <= 4; ++groups) {
    for (std::size_t count : {1, 3, 4, 37}) {
      std::vector<std::uint32_t> offsets(count);
      std::vector<std::int16_t> pairs(count * groups * 16, 0);
      for (std::size_t i = 0; i < count; ++i) {
        offsets[i] = static_cast<std::uint32_t>(random() % 1000 * 3);
        for (std::size_t tap = 0; tap < groups * 4; ++tap) {
          const auto weight = static_cast<std::int16_t>(random() % (16384 / (groups * 4)));
          for (std::size_t c = 0; c < 3; ++c) pairs[(i * groups * 2 + tap / 2) * 8 + c * 2 + tap % 2] = weight;
        }
      }
      std::vector<std::uint8_t> fast(count * 3 + 16);
      std::vector<std::uint8_t> plain(count * 3 + 16);
      const ColumnPass pass = {.offsets = offsets, .pairs = pairs.data(), .groups = groups};
      resize_columns(pass, in.data(), fast.data());
      resize_columns_plain(pass, in.data(), plain.data());
      CHECK(std::equal(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(count * 3), fast.begin()));
    }
  }
  for (std::size_t taps = 1; taps < 12; ++taps) {
    std::vector<std::int16_t> weights(taps);
    for (std::int16_t& weight : weights) weight = static_cast<std::int16_t>(32767 / taps - random() % 100);
    for (const int one : {kRowWeightOne, kWideRowWeightOne}) {
      std::vector<std::uint8_t> fast(1000);
      std::vector<std::uint8_t> plain(1000);
      const RowPass pass = {.weights = weights, .stride = 1003, .one = one};
      resize_rows(pass, in.data(), 1000, fast.data());
      resize_rows_plain(pass, in.data(), 1000, plain.data());
      CHECK(fast == plain);
      for (std::int16_t& weight : weights) weight = static_cast<std::int16_t>(random() % 2 == 0 ? weight : -weight / 4);
    }
  }
}

TEST_CASE("numbers are looked up as by the plain code, and nothing is written behind the planes") {
  std::mt19937 random(12);
  std::vector<std::uint16_t> tables(3 * 256);
  for (std::uint16_t& entry : tables) entry = static_cast<std::uint16_t>(random());
  for (std::size_t count : {0, 1, 63, 64, 65, 1000}) {
    std::vector<std::uint8_t> rgb(count * 3);
    for (std::uint8_t& byte : rgb) byte = static_cast<std::uint8_t>(random());
    const auto planes_of = [count](std::vector<std::uint16_t>& out) -> std::array<std::uint16_t*, 3> {
      return {out.data(), &out[count], &out[count * 2]};
    };
    std::vector<std::uint16_t> fast(count * 3 + 1);
    std::vector<std::uint16_t> plain(count * 3 + 1);
    map_to_planes(rgb.data(), count, tables.data(), planes_of(fast));
    map_to_planes_plain(rgb.data(), count, tables.data(), planes_of(plain));
    CHECK(fast == plain);
  }
}

}  // namespace
}  // namespace headrace::decode::resize_test
