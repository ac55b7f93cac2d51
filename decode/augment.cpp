// SPDX-License-Identifier: Apache-2.0
// What PIL does is in its Geometry.c (affine_fixed), Filter.c and ImageOps.py; the matrices and strengths are
// torchvision's (transforms/functional.py and autoaugment.py, 0.14).
#include "headrace/decode/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "headrace/decode/color_jitter.h"

namespace headrace::decode {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::uint32_t, 256>;

// Which point of the image a point of the output shows: (xx * x + xy * y + x0, yx * x + yy * y + y0).
struct Affine {
  double xx = 1;
  double xy = 0;
  double x0 = 0;
  double yx = 0;
  double yy = 1;
  double y0 = 0;
};

// PIL's fixed point: 16 fractional bits.
std::int64_t fixed(double value) {
  return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5));
}

void transform_nearest(const Affine& to, Image& image, Image& scratch) {
  const Size size = image.size();
  std::swap(image, scratch);
  image.reset(size);
  std::ranges::fill(image.bytes(), std::uint8_t{0});
  const std::int64_t step_x = fixed(to.xx);
  const std::int64_t step_y = fixed(to.yx);
  std::int64_t row_x = fixed(to.x0 + to.xx * 0.5 + to.xy * 0.5);  // the middle of a pixel
  std::int64_t row_y = fixed(to.y0 + to.yx * 0.5 + to.yy * 0.5);
  for (std::uint32_t y = 0; y < size.height; ++y, row_x += fixed(to.xy), row_y += fixed(to.yy)) {
    std::uint8_t* out = image.row(y);
    std::int64_t in_x = row_x;
    std::int64_t in_y = row_y;
    for (std::uint32_t x = 0; x < size.width; ++x, out += Image::kChannels, in_x += step_x, in_y += step_y) {
      const std::int64_t column = in_x >> 16;
      const std::int64_t line = in_y >> 16;
      if (column < 0 || column >= size.width || line < 0 || line >= size.height) continue;
      const std::uint8_t* in = scratch.row(static_cast<std::size_t>(line)) + column * Image::kChannels;
      out[0] = in[0];
      out[1] = in[1];
      out[2] = in[2];
    }
  }
}

// torchvision goes through degrees.
double shear_of(double strength) {
  constexpr double kDegrees = 180.0 / std::numbers::pi;
  return std::tan(std::atan(strength) * kDegrees * (std::numbers::pi / 180.0));
}

// PIL rounds to 15 decimals, which makes 90 degrees exact.
Affine rotation(double degrees, Size size) {
  const auto rounded = [](double value) { return std::round(value * 1e15) / 1e15; };
  double turned = std::fmod(degrees, 360.0);
  if (turned < 0) turned += 360.0;
  const double angle = -(turned * (std::numbers::pi / 180.0));
  const double cosine = rounded(std::cos(angle));
  const double sine = rounded(std::sin(angle));
  const double middle_x = size.width / 2.0;
  const double middle_y = size.height / 2.0;
  return {.xx = cosine,
          .xy = sine,
          .x0 = cosine * -middle_x + sine * -middle_y + middle_x,
          .yx = -sine,
          .yy = cosine,
          .y0 = -sine * -middle_x + cosine * -middle_y + middle_y};
}

void map_all(Image& image, const Table& table) {
  for (std::uint8_t& byte : image.bytes()) byte = table[byte];
}

// `make`: from the histogram of a channel, over `pixels` in all, to its table.
template <typename Make>
void map_each_channel(Image& image, Make make) {
  const std::span<std::uint8_t> bytes = image.bytes();
  std::array<Histogram, Image::kChannels> histograms = {};
  for (std::size_t i = 0; i < bytes.size(); ++i) ++histograms[i % Image::kChannels][bytes[i]];
  std::array<Table, Image::kChannels> tables;
  for (std::size_t c = 0; c < tables.size(); ++c) {
    std::iota(tables[c].begin(), tables[c].end(), std::uint8_t{0});
    make(histograms[c], tables[c]);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = tables[i % Image::kChannels][bytes[i]];
}

void posterize(Image& image, int bits) {
  Table table;
  const int mask = ~((1 << (8 - std::clamp(bits, 0, 8))) - 1);
  for (int i = 0; i < 256; ++i) table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i & mask);
  map_all(image, table);
}

void solarize(Image& image, double threshold) {
  Table table;
  for (int i = 0; i < 256; ++i)
    table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i < threshold ? i : 255 - i);
  map_all(image, table);
}

void auto_contrast(const Histogram& histogram, Table& table) {
  const auto is_used = [](std::uint32_t pixels) { return pixels > 0; };
  const auto first = std::ranges::find_if(histogram, is_used) - histogram.begin();
  const auto last = 255 - (std::find_if(histogram.rbegin(), histogram.rend(), is_used) - histogram.rbegin());
  if (last <= first) return;
  const double scale = 255.0 / static_cast<double>(last - first);
  const double offset = static_cast<double>(-first) * scale;
  for (int i = 0; i < 256; ++i) {
    table[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
  }
}

void equalize(const Histogram& histogram, Table& table) {
  const auto last = std::find_if(histogram.rbegin(), histogram.rend(), [](std::uint32_t pixels) { return pixels > 0; });
  if (last == histogram.rend()) return;
  const std::uint64_t all = std::accumulate(histogram.begin(), histogram.end(), std::uint64_t{0});
  const std::uint64_t step = (all - *last) / 255;
  if (step == 0) return;
  std::uint64_t count = step / 2;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(std::min<std::uint64_t>(count / step, 255));
    count += histogram[i];
  }
}

bool is_signed(AugmentKind kind) {
  return kind >= AugmentKind::kShearX && kind <= AugmentKind::kSharpness;
}

// The strengths of the first and the last bin.
struct Ends {
  double first = 0;
  double last = 0;
};

Ends ends_of(const Augment& augment, AugmentKind kind, Size size) {
  const bool wide = augment.kind == Augment::Kind::kTrivialWide;
  constexpr double kShift = 150.0 / 331.0;  // of a side
  switch (kind) {
    case AugmentKind::kShearX:
    case AugmentKind::kShearY:
      return {0, wide ? 0.99 : 0.3};
    case AugmentKind::kTranslateX:
      return {0, wide ? 32.0 : kShift * size.width};
    case AugmentKind::kTranslateY:
      return {0, wide ? 32.0 : kShift * size.height};
    case AugmentKind::kRotate:
      return {0, wide ? 135.0 : 30.0};
    case AugmentKind::kBrightness:
    case AugmentKind::kColor:
    case AugmentKind::kContrast:
    case AugmentKind::kSharpness:
      return {0, wide ? 0.99 : 0.9};
    case AugmentKind::kSolarize:
      return {255, 0};
    default:
      return {};
  }
}

}  // namespace

void augment(AugmentKind kind, double strength, Image& image, Image& scratch) {
  switch (kind) {
    case AugmentKind::kIdentity:
      return;
    case AugmentKind::kShearX:
      return transform_nearest({.xy = shear_of(strength)}, image, scratch);
    case AugmentKind::kShearY:
      return transform_nearest({.yx = shear_of(strength)}, image, scratch);
    case AugmentKind::kTranslateX:
      return transform_nearest({.x0 = -std::trunc(strength)}, image, scratch);
    case AugmentKind::kTranslateY:
      return transform_nearest({.y0 = -std::trunc(strength)}, image, scratch);
    case AugmentKind::kRotate:
      return transform_nearest(rotation(strength, image.size()), image, scratch);
    case AugmentKind::kBrightness:
      return adjust_brightness(image, 1.0 + strength);
    case AugmentKind::kColor:
      return adjust_saturation(image, 1.0 + strength);
    case AugmentKind::kContrast:
      return adjust_contrast(image, 1.0 + strength);
    case AugmentKind::kSharpness:
      return adjust_sharpness(image, 1.0 + strength, scratch);
    case AugmentKind::kPosterize:
      return posterize(image, static_cast<int>(strength));
    case AugmentKind::kSolarize:
      return solarize(image, strength);
    case AugmentKind::kAutoContrast:
      return map_each_channel(image, auto_contrast);
    case AugmentKind::kEqualize:
      return map_each_channel(image, equalize);
  }
}

double augment_strength(const Augment& augment, AugmentKind kind, std::uint32_t bin, Size size) {
  const double last = augment.bins - 1;
  if (kind == AugmentKind::kPosterize) {
    const double lost = augment.kind == Augment::Kind::kTrivialWide ? 6 : 4;  // bits, at most
    return 8 - std::nearbyint(static_cast<float>(bin) / static_cast<float>(last / lost));
  }
  const Ends ends = ends_of(augment, kind, size);
  return static_cast<float>(ends.first + (ends.last - ends.first) * bin / last);
}

AugmentDraw draw_augment(const Augment& augment, Size size, Random& random) {
  const auto kind = static_cast<AugmentKind>(random.below(kAugmentKinds));
  const std::uint32_t bin = random.below(augment.bins);
  const bool negative = random.below(2) == 1;
  const bool drawn = augment.kind == Augment::Kind::kTrivialWide;
  const double strength = augment_strength(augment, kind, drawn ? bin : augment.magnitude, size);
  return {.kind = kind, .strength = negative && is_signed(kind) ? -strength : strength};
}

void apply_augment(const Augment& chosen, Random& random, Image& image, Image& scratch) {
  const std::uint32_t times = chosen.kind == Augment::Kind::kTrivialWide ? 1 : chosen.ops;
  for (std::uint32_t i = 0; i < times; ++i) {
    const AugmentDraw draw = draw_augment(chosen, image.size(), random);
    augment(draw.kind, draw.strength, image, scratch);
  }
}

}  // namespace headrace::decode
