// SPDX-License-Identifier: Apache-2.0
// PIL computes in single precision and truncates; so does this, to get the same pixels (libImaging/Blend.c, Convert.c).
#include "headrace/decode/color_jitter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace headrace::decode {
namespace {

// ITU-R 601-2 luma in 16-bit fixed point, rounded.
int grey_of(const std::uint8_t* pixel) {
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16;
}

std::uint8_t clipped(float value) {
  if (value <= 0) return 0;
  return value >= 255 ? std::uint8_t{255} : static_cast<std::uint8_t>(value);
}

std::uint8_t blend(int from, int to, float factor) {
  return clipped(static_cast<float>(from) + factor * static_cast<float>(to - from));
}

template <typename Change>
void for_each_pixel(Image& image, Change change) {
  const std::span<std::uint8_t> bytes = image.bytes();
  for (std::size_t i = 0; i < bytes.size(); i += Image::kChannels) change(&bytes[i]);
}

// All bytes through one table: what happens to a byte does not depend on its neighbours.
void blend_from(Image& image, int from, double factor) {
  std::array<std::uint8_t, 256> table;
  for (int i = 0; i < 256; ++i) table[static_cast<std::size_t>(i)] = blend(from, i, static_cast<float>(factor));
  for (std::uint8_t& byte : image.bytes()) byte = table[byte];
}

struct Hsv {
  std::uint8_t hue;
  std::uint8_t saturation;
  std::uint8_t value;
};

Hsv to_hsv(const std::uint8_t* rgb) {
  const int high = std::max({rgb[0], rgb[1], rgb[2]});
  const int low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {0, 0, static_cast<std::uint8_t>(high)};
  const auto range = static_cast<float>(high - low);
  const float red = static_cast<float>(high - rgb[0]) / range;
  const float green = static_cast<float>(high - rgb[1]) / range;
  const float blue = static_cast<float>(high - rgb[2]) / range;
  float hue = 0;
  if (rgb[0] == high) {
    hue = blue - green;
  } else if (rgb[1] == high) {
    hue = static_cast<float>(2.0 + red - blue);
  } else {
    hue = static_cast<float>(4.0 + green - red);
  }
  hue = static_cast<float>(std::fmod(hue / 6.0 + 1.0, 1.0));
  return {static_cast<std::uint8_t>(hue * 255.0), static_cast<std::uint8_t>(range / static_cast<float>(high) * 255.0),
          static_cast<std::uint8_t>(high)};
}

void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  const double sixth = static_cast<float>(hsv.hue) * 6.0 / 255.0;
  const int sector = static_cast<int>(std::floor(sixth));
  const auto part = static_cast<float>(sixth - sector);
  const auto saturation = static_cast<float>(hsv.saturation / 255.0);
  const auto scaled = [&](double by) { return static_cast<std::uint8_t>(std::round(hsv.value * by)); };
  const std::uint8_t v = hsv.value;
  const std::uint8_t p = scaled(1.0 - saturation);
  const std::uint8_t q = scaled(1.0 - saturation * part);
  const std::uint8_t t = scaled(1.0 - saturation * (1.0 - part));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors = {
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::ranges::copy(sectors[static_cast<std::size_t>(sector % 6)], rgb);
}

double draw_factor(double range, Random& random) {
  return random.uniform(std::max(0.0, 1.0 - range), 1.0 + range);
}

}  // namespace

void adjust_brightness(Image& image, double factor) {
  blend_from(image, 0, factor);
}

void adjust_contrast(Image& image, double factor) {
  if (image.size().pixels() == 0) return;
  std::uint64_t sum = 0;
  for_each_pixel(image, [&](const std::uint8_t* pixel) { sum += static_cast<unsigned>(grey_of(pixel)); });
  const double mean = static_cast<double>(sum) / static_cast<double>(image.size().pixels());
  blend_from(image, static_cast<int>(std::lround(mean)), factor);
}

void adjust_saturation(Image& image, double factor) {
  for_each_pixel(image, [&](std::uint8_t* pixel) {
    const int grey = grey_of(pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = blend(grey, pixel[c], static_cast<float>(factor));
  });
}

void adjust_sharpness(Image& image, double factor, Image& scratch) {
  const Size size = image.size();
  if (size.width < 3 || size.height < 3) return;
  scratch.reset(size);
  std::ranges::copy(image.bytes(), scratch.bytes().begin());
  constexpr std::size_t kNext = Image::kChannels;
  for (std::uint32_t y = 1; y + 1 < size.height; ++y) {
    const std::uint8_t* above = scratch.row(y - 1);
    const std::uint8_t* here = scratch.row(y);
    const std::uint8_t* below = scratch.row(y + 1);
    std::uint8_t* out = image.row(y);
    for (std::size_t i = kNext; i + kNext < image.row_bytes(); ++i) {
      const int all = above[i - kNext] + above[i] + above[i + kNext] + here[i - kNext] + 5 * here[i] + here[i + kNext] +
                      below[i - kNext] + below[i] + below[i + kNext];
      out[i] = blend((2 * all + 13) / 26, here[i], static_cast<float>(factor));  // of 13 parts, rounded
    }
  }
}

void adjust_hue(Image& image, double shift) {
  const auto steps = static_cast<std::uint8_t>(static_cast<int>(shift * 255));  // negative wraps around the circle
  for_each_pixel(image, [&](std::uint8_t* pixel) {
    Hsv hsv = to_hsv(pixel);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + steps);
    to_rgb(hsv, pixel);
  });
}

JitterDraw draw_jitter(const ColorJitter& jitter, Random& random) {
  JitterDraw draw;
  for (std::uint32_t i = 3; i > 0; --i) std::swap(draw.order[i], draw.order[random.below(i + 1)]);
  // All four are drawn, used or not, so that what is drawn later does not depend on which are.
  draw.brightness = draw_factor(jitter.brightness, random);
  draw.contrast = draw_factor(jitter.contrast, random);
  draw.saturation = draw_factor(jitter.saturation, random);
  draw.hue = random.uniform(-jitter.hue, jitter.hue);
  return draw;
}

void apply_jitter(const ColorJitter& jitter, Random& random, Image& image) {
  const JitterDraw draw = draw_jitter(jitter, random);
  for (int step : draw.order) {
    if (step == 0 && jitter.brightness > 0) adjust_brightness(image, draw.brightness);
    if (step == 1 && jitter.contrast > 0) adjust_contrast(image, draw.contrast);
    if (step == 2 && jitter.saturation > 0) adjust_saturation(image, draw.saturation);
    if (step == 3 && jitter.hue > 0) adjust_hue(image, draw.hue);
  }
}

}  // namespace headrace::decode
