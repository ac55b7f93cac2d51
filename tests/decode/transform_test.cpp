// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include "headrace/decode/sample_transformer.h"
#include "headrace/decode/tensor.h"

#include "decode/jpeg_files.h"

namespace headrace::decode::transform_test {
namespace {

TEST_CASE("Philox gives the published numbers") {
  // Random123's known answers (kat_vectors, philox4x32 10).
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("what is drawn depends on seed, epoch, position and sample, on each of them") {
  const auto first = [](const RandomKey& key) { return Random(key).uniform(); };
  const double base = first({.seed = 1, .epoch = 2, .sample = 3});
  CHECK(base == first({.seed = 1, .epoch = 2, .sample = 3}));
  CHECK(base != first({.seed = 2, .epoch = 2, .sample = 3}));
  CHECK(base != first({.seed = 1, .epoch = 3, .sample = 3}));
  CHECK(base != first({.seed = 1, .epoch = 2, .sample = 4}));
  CHECK(base != first({.seed = 1, .epoch = 2, .position = 1, .sample = 3}));
  CHECK(base != first({.seed = 1 + (std::uint64_t{1} << 40), .epoch = 2, .sample = 3}));
}

TEST_CASE("random crops lie within the image, whatever its shape") {
  const Transform transform = {.geometry = RandomResizedCrop{.size = {16, 16}}};
  for (const Size size : {Size{500, 375}, Size{1, 1}, Size{1, 700}, Size{3000, 2}, Size{7, 5}}) {
    for (std::uint32_t i = 0; i < 500; ++i) {
      Random random({.sample = i});
      const RealBox part = plan_crop(transform, size, random).part;
      CHECK(part.x >= 0);
      CHECK(part.width >= 1);
      CHECK(part.x + part.width <= size.width);
      CHECK(part.y + part.height <= size.height);
    }
  }
}

Image transformed(const Transform& transform, const test::Bytes& file, const RandomKey& key) {
  const TensorWriter writer({.type = ElementType::kUint8, .layout = Layout::kChannelsLast});
  SampleTransformer transformer(transform, writer);
  ImageDecoder decoder({});
  REQUIRE(transformer.decode(decoder, file, key));
  Image image;
  image.reset(output_size(transform.geometry));
  transformer.write(reinterpret_cast<std::byte*>(image.bytes().data()));
  return image;
}

TEST_CASE("a crop out of the padded image shows the border and, unchanged, the image") {
  const test::Bytes file = test::make_jpeg({.size = {32, 32}});
  const test::ReferenceImage stored = test::reference_decode(file);
  const Transform transform = {.geometry = PadCrop{.size = {32, 32}, .padding = 4, .fill = 9}, .flip_probability = 0.5};
  for (std::uint32_t i = 0; i < 60; ++i) {
    Random random({.sample = i});
    const CropPlan plan = plan_crop(transform, {32, 32}, random);
    const Image image = transformed(transform, file, {.sample = i});
    bool same = true;
    for (unsigned y = 0; y < 32; ++y) {
      for (unsigned x = 0; x < 32; ++x) {
        const std::uint8_t* pixel = image.row(y) + x * 3;
        const bool inside = y - plan.target_y < plan.target.height && x - plan.target_x < plan.target.width;
        const unsigned column = plan.mirror ? plan.target.width - 1 - (x - plan.target_x) : x - plan.target_x;
        const unsigned from_x = static_cast<unsigned>(plan.part.x) + column;
        const unsigned from_y = static_cast<unsigned>(plan.part.y) + y - plan.target_y;
        const std::uint8_t border[3] = {9, 9, 9};
        same = same && std::memcmp(pixel, inside ? &stored.pixels[(from_y * 32 + from_x) * 3] : border, 3) == 0;
      }
    }
    CHECK(same);
  }
}

TEST_CASE("a padding that a crop may lie within is refused, the largest smaller one always shows a part of the image") {
  const auto crop = [](Size size, std::uint32_t padding) {
    return Transform{.geometry = PadCrop{.size = size, .padding = padding}, .flip_probability = 0.5};
  };
  CHECK_FALSE(check(crop({32, 32}, 32)));
  CHECK_FALSE(check(crop({32, 16}, 16)));
  CHECK_FALSE(check(crop({16, 32}, UINT32_MAX)));
  for (const Size size : {Size{32, 32}, Size{7, 20}, Size{1, 1}}) {
    const Transform transform = crop(size, std::min(size.width, size.height) - 1);
    REQUIRE(check(transform));
    for (const Size image : {Size{1, 1}, Size{32, 32}, Size{3, 50}}) {
      for (std::uint32_t i = 0; i < 500; ++i) {
        Random random({.sample = i});
        const CropPlan plan = plan_crop(transform, image, random);
        REQUIRE(contains(size, {plan.target_x, plan.target_y, plan.target.width, plan.target.height}));
      }
    }
  }
}

TEST_CASE("a centre crop of an endless line of pixels lies within the output") {
  const Transform transform = {.geometry = ResizeCenterCrop{.shorter_side = 256, .size = {224, 224}}};
  Random random({});
  for (const Size image : {Size{1, 1U << 24}, Size{1U << 24, 1}, Size{1, 100'000'000}}) {
    CHECK(plan_crop(transform, image, random).target == Size{224, 224});
  }
}

TEST_CASE("a bicubic filter looks two pixels further where it is not confined, and is refused without antialias") {
  const CropPlan plan = {.part = {40, 40, 20, 20}, .target = {20, 20}, .confined = false};
  CHECK(region_for(plan, {400, 400}, 1).box == Box{39, 39, 22, 22});
  CHECK(region_for(plan, {400, 400}, 1, Filter::kBicubic).box == Box{38, 38, 24, 24});
  CHECK(check({.filter = Filter::kBicubic}).has_value());
  CHECK_FALSE(check({.filter = Filter::kBicubic, .antialias = false}).has_value());
}

TEST_CASE("DCT scaling comes into play from twice the target on, and changes little") {
  const CropPlan plan = {.part = {0, 0, 400, 400}, .target = {100, 100}};
  CHECK(region_for(plan, {400, 400}, 8).reduce == 4);
  CHECK(region_for({.part = {0, 0, 399, 400}, .target = {100, 100}}, {400, 400}, 8).reduce == 2);
  CHECK(region_for({.part = {0, 0, 199, 400}, .target = {100, 100}}, {400, 400}, 8).reduce == 1);
  CHECK(region_for(plan, {400, 400}, 1).reduce == 1);

  const test::Bytes file = test::make_jpeg({.size = {400, 300}, .quality = 95});
  Transform transform = {.geometry = Resize{.size = {100, 75}}};
  const Image scaled = transformed(transform, file, {});
  transform.dct_scaling = false;
  const Image exact = transformed(transform, file, {});
  double difference = 0;
  for (std::size_t i = 0; i < exact.bytes().size(); ++i) difference += std::abs(exact.bytes()[i] - scaled.bytes()[i]);
  CHECK(difference / static_cast<double>(exact.bytes().size()) < 6);
}

TEST_CASE("16-bit floats round to nearest even, up to infinity and down to subnormals") {
  CHECK(to_float16(0.0) == 0x0000);
  CHECK(to_float16(-0.0) == 0x8000);
  CHECK(to_float16(1.0) == 0x3c00);
  CHECK(to_float16(-2.0) == 0xc000);
  CHECK(to_float16(1 + 0x1p-11) == 0x3c00);            // half way: to even
  CHECK(to_float16(1 + 3 * 0x1p-11) == 0x3c02);        // half way: to even
  CHECK(to_float16(1 + 0x1p-11 + 0x1p-40) == 0x3c01);  // a little more
  CHECK(to_float16(65504) == 0x7bff);
  CHECK(to_float16(65520) == 0x7c00);
  CHECK(to_float16(1e9) == 0x7c00);
  CHECK(to_float16(-INFINITY) == 0xfc00);
  CHECK(to_float16(0x1p-24) == 0x0001);
  CHECK(to_float16(0x1p-25) == 0x0000);
  CHECK(to_float16(0x1p-14 - 0x1p-26) == 0x0400);  // rounds up to the smallest normal number
  CHECK(to_float16(NAN) == 0x7e00);
  CHECK(to_bfloat16(1.0) == 0x3f80);
  CHECK(to_bfloat16(1 + 0x1p-8) == 0x3f80);
  CHECK(to_bfloat16(3.4e38) == 0x7f80);
}

TEST_CASE("both layouts hold the same numbers") {
  Image image;
  image.reset({3, 2});
  for (std::size_t i = 0; i < 18; ++i) image.bytes()[i] = static_cast<std::uint8_t>(i * 13);
  std::vector<float> planes(18);
  std::vector<float> pixels(18);
  TensorWriter({.normalise = kImageNet}).write(image, reinterpret_cast<std::byte*>(planes.data()));
  TensorWriter({.layout = Layout::kChannelsLast, .normalise = kImageNet})
      .write(image, reinterpret_cast<std::byte*>(pixels.data()));
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t c = 0; c < 3; ++c) CHECK(planes[c * 6 + i] == pixels[i * 3 + c]);
  }
  CHECK(pixels[4] == static_cast<float>((52 / 255.0 - 0.456) / 0.224));
}

}  // namespace
}  // namespace headrace::decode::transform_test
