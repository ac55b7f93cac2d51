// SPDX-License-Identifier: Apache-2.0
// Paints large pictures, out of which the samples of a synthetic data set are cut.
//
//   const Picture canvas = paint_canvas(7);
//   const Picture sample = cut(canvas, {.width = 500, .height = 375, .step = 2});
//
// Thread-safety: the functions are pure.
#pragma once

#include <cstdint>
#include <vector>

namespace headrace::cli {

struct Picture {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> rgb;  // rows from the top, 3 bytes per pixel
};

// A scene of 2400x1600: discs of all sizes that hide one another, with 1/f texture and a little sensor noise. Such
// "dead leaves" share edges and spectrum with photographs (Lee, Mumford, Huang, IJCV 2001), so that a JPEG of it has
// their mix of large and small coefficients.
[[nodiscard]] Picture paint_canvas(std::uint64_t seed);

struct CutOptions {
  std::uint32_t left = 0;
  std::uint32_t top = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t step = 1;  // each pixel is the mean of step x step pixels of the canvas; costs step^2
  bool mirror = false;     // left to right
};

// Cuts out a part of the canvas. Beyond its edges the canvas continues as its own mirror image.
[[nodiscard]] Picture cut(const Picture& canvas, const CutOptions& options);

}  // namespace headrace::cli
