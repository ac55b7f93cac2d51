// SPDX-License-Identifier: Apache-2.0
// Bilinear and bicubic resizing as PIL does it (with antialias), or bilinear as torchvision does it on tensors without
// antialias.
//
//   Resizer resizer;
//   resizer.resize(image, {.part = {0, 0, 500, 375}, .target = {224, 224}}, out);
//
// Two passes, columns then rows, with 8-bit pixels in between, as PIL; the weights have 14 and 15 bits where PIL
// has 22. The result is within 1 of PIL's per channel.
//
// Thread-safety: none; one object per thread, reused.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/decode/image.h"

namespace headrace::decode {

// A rectangle in continuous coordinates: pixel i covers [i, i + 1).
struct RealBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

enum class Filter : std::uint8_t {
  kBilinear,
  kBicubic,  // Keys' with a = -0.5, as PIL has it; only with antialias
};

// How far the filter reaches, in pixels of the output (of the input where that is enlarged).
[[nodiscard]] inline double reach_of(Filter filter) {
  return filter == Filter::kBicubic ? 2 : 1;
}

struct ResizeSpec {
  RealBox part;  // of the input; the filter also uses the pixels around it, where there are any
  Size target;
  Filter filter = Filter::kBilinear;
  bool antialias = true;
  bool mirror = false;  // left to right; costs nothing here
};

// What is resized along one axis.
struct AxisSpec {
  std::uint32_t input_count = 0;
  double begin = 0;
  double extent = 0;
  std::uint32_t output_count = 0;
  Filter filter = Filter::kBilinear;
  bool antialias = true;
};

// Weights along one axis. Output i is the sum over k < taps of weights[i * taps + k] * input[first[i] + k].
struct AxisWeights {
  std::uint32_t taps = 0;
  std::vector<std::uint32_t> first;
  std::vector<std::int16_t> weights;

  // Each output's weights sum up to `one`, exactly (one - 1 where a single weight cannot hold it).
  void compute(const AxisSpec& axis, int one);

 private:
  std::vector<double> exact_;  // of one output
};

class Resizer {
 public:
  // `in` must not be `out`.
  void resize(const Image& in, const ResizeSpec& spec, Image& out);

 private:
  void expand_columns(bool mirror);

  AxisWeights columns_;
  AxisWeights rows_;
  std::vector<std::uint32_t> offsets_;  // columns_, as the kernel wants them
  std::vector<std::int16_t> pairs_;
  std::vector<std::uint8_t> narrowed_;  // columns resized, rows not yet
};

}  // namespace headrace::decode
