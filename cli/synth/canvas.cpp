// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/synth/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "headrace/cli/synth/splitmix.h"

namespace headrace::cli {
namespace {

constexpr std::uint32_t kCanvasWidth = 2400;
constexpr std::uint32_t kCanvasHeight = 1600;
constexpr std::uint32_t kTileSide = 512;  // a power of two; the texture repeats, but discs hide that
constexpr double kRadiusMin = 3;
constexpr double kRadiusMax = 900;
// With radii between these, 12 000 discs have the area of the canvas. Four times as many leave hardly a gap.
constexpr int kDiscs = 48'000;

using Tile = std::vector<float>;  // kTileSide^2 values around 0

// Adds one octave of value noise: random values on a lattice of `cells` x `cells`, smoothly interpolated; it wraps
// around at the edges.
void add_octave(Tile& tile, std::uint32_t cells, float amplitude, SplitMix& random) {
  std::vector<float> lattice(std::size_t{cells} * cells);
  for (float& value : lattice) value = static_cast<float>(random.between(-1, 1));
  const std::uint32_t cell_side = kTileSide / cells;
  const auto smooth = [](float t) { return t * t * (3 - 2 * t); };
  for (std::uint32_t y = 0; y < kTileSide; ++y) {
    const std::uint32_t row = y / cell_side;
    const float* above = &lattice[std::size_t{row} * cells];
    const float* below = &lattice[std::size_t{(row + 1) % cells} * cells];
    const float down = smooth(static_cast<float>(y % cell_side) / static_cast<float>(cell_side));
    for (std::uint32_t x = 0; x < kTileSide; ++x) {
      const std::uint32_t column = x / cell_side;
      const std::uint32_t next = (column + 1) % cells;
      const float right = smooth(static_cast<float>(x % cell_side) / static_cast<float>(cell_side));
      const float upper = above[column] + right * (above[next] - above[column]);
      const float lower = below[column] + right * (below[next] - below[column]);
      tile[std::size_t{y} * kTileSide + x] += amplitude * (upper + down * (lower - upper));
    }
  }
}

// 1/f noise: each octave has half the amplitude of the octave with half its frequency.
Tile make_texture(SplitMix& random) {
  Tile tile(std::size_t{kTileSide} * kTileSide);
  float amplitude = 1;
  for (std::uint32_t cells = 4; cells <= kTileSide; cells *= 2, amplitude /= 2) {
    add_octave(tile, cells, amplitude, random);
  }
  return tile;
}

struct Disc {
  double x, y, radius;
  std::array<float, 3> colour;
  std::array<float, 2> shade;  // change of brightness per pixel to the right and downwards
  float texture;               // how strongly the texture shows
  std::uint32_t texture_x, texture_y;
};

// The density of radii falls with r^-3, so the scene looks alike at every scale.
Disc draw_disc(SplitMix& random) {
  Disc disc = {};
  const double low = 1 / (kRadiusMax * kRadiusMax);
  const double high = 1 / (kRadiusMin * kRadiusMin);
  disc.radius = 1 / std::sqrt(random.between(low, high));
  disc.x = random.between(0, kCanvasWidth);
  disc.y = random.between(0, kCanvasHeight);
  const double brightness = random.between(20, 235);
  for (float& channel : disc.colour) channel = static_cast<float>(brightness + random.between(-45, 45));
  for (float& slope : disc.shade) slope = static_cast<float>(random.between(-40, 40) / disc.radius);
  disc.texture = static_cast<float>(random.between(0, 26) * random.unit());
  disc.texture_x = random.below(kTileSide);
  disc.texture_y = random.below(kTileSide);
  return disc;
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

void paint_row(Picture& canvas, const Tile& texture, const Disc& disc, std::uint32_t y) {
  const double from_centre = y - disc.y;
  const double half = std::sqrt(std::max(0.0, disc.radius * disc.radius - from_centre * from_centre));
  const auto first = static_cast<std::uint32_t>(std::clamp(disc.x - half, 0.0, double{kCanvasWidth}));
  const auto last = static_cast<std::uint32_t>(std::clamp(disc.x + half, 0.0, double{kCanvasWidth}));
  const float* pattern = &texture[std::size_t{(y + disc.texture_y) % kTileSide} * kTileSide];
  std::uint8_t* pixel = &canvas.rgb[(std::size_t{y} * canvas.width + first) * 3];
  for (std::uint32_t x = first; x < last; ++x) {
    const float light = disc.shade[0] * static_cast<float>(x - disc.x) +
                        disc.shade[1] * static_cast<float>(from_centre) +
                        disc.texture * pattern[(x + disc.texture_x) % kTileSide];
    for (const float colour : disc.colour) *pixel++ = to_byte(colour + light);
  }
}

void paint_disc(Picture& canvas, const Tile& texture, const Disc& disc) {
  const auto first = static_cast<std::uint32_t>(std::clamp(disc.y - disc.radius, 0.0, double{kCanvasHeight}));
  const auto last = static_cast<std::uint32_t>(std::clamp(disc.y + disc.radius, 0.0, double{kCanvasHeight}));
  for (std::uint32_t y = first; y < last; ++y) paint_row(canvas, texture, disc, y);
}

void add_sensor_noise(Picture& canvas, SplitMix& random) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < canvas.rgb.size(); ++i) {
    if (i % 8 == 0) bits = random.next();
    // The sum of two dice with 16 sides, around 0, halved: a triangle close enough to a sensor's noise, standard
    // deviation 3.
    const int noise = static_cast<int>(bits & 15) + static_cast<int>((bits >> 4) & 15) - 15;
    bits >>= 8;
    canvas.rgb[i] = static_cast<std::uint8_t>(std::clamp(canvas.rgb[i] + noise / 2, 0, 255));
  }
}

// For each pixel of the cut along one axis, the `step` coordinates of the canvas that it averages. Those outside the
// canvas are reflected into it.
std::vector<std::uint32_t> coordinates(std::uint32_t start, std::uint32_t count, std::uint32_t step,
                                       std::uint32_t side) {
  std::vector<std::uint32_t> result(std::size_t{count} * step);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto place = static_cast<std::uint32_t>((start + i) % (2 * std::size_t{side}));
    result[i] = place < side ? place : 2 * side - 1 - place;
  }
  return result;
}

}  // namespace

Picture paint_canvas(std::uint64_t seed) {
  SplitMix random(seed);
  Picture canvas = {kCanvasWidth, kCanvasHeight, {}};
  canvas.rgb.assign(std::size_t{kCanvasWidth} * kCanvasHeight * 3, 128);
  const Tile texture = make_texture(random);
  for (int i = 0; i < kDiscs; ++i) paint_disc(canvas, texture, draw_disc(random));
  add_sensor_noise(canvas, random);
  return canvas;
}

Picture cut(const Picture& canvas, const CutOptions& options) {
  const std::uint32_t step = options.step;
  const auto columns = coordinates(options.left, options.width, step, canvas.width);
  const auto rows = coordinates(options.top, options.height, step, canvas.height);
  Picture result = {options.width, options.height, {}};
  result.rgb.resize(std::size_t{options.width} * options.height * 3);
  std::uint8_t* out = result.rgb.data();
  for (std::uint32_t y = 0; y < options.height; ++y) {
    for (std::uint32_t x = 0; x < options.width; ++x) {
      const std::size_t column = std::size_t{options.mirror ? options.width - 1 - x : x} * step;
      std::array<std::uint32_t, 3> sum = {};
      for (std::uint32_t j = 0; j < step; ++j) {
        const std::uint8_t* row = &canvas.rgb[std::size_t{rows[y * step + j]} * canvas.width * 3];
        for (std::uint32_t i = 0; i < step; ++i) {
          const std::uint8_t* pixel = row + std::size_t{columns[column + i]} * 3;
          for (std::size_t channel = 0; channel < 3; ++channel) sum[channel] += pixel[channel];
        }
      }
      for (const std::uint32_t total : sum) *out++ = static_cast<std::uint8_t>(total / (step * step));
    }
  }
  return result;
}

}  // namespace headrace::cli
