// SPDX-License-Identifier: Apache-2.0
// Bilinear and bicubic resizing as PIL does it (with antialias), or bilinear as torchvision does it on tensors without
// antialias.
//
//   Resizer resizer;
//   resizer.resize(image, {.part = {0, 0, 500, 375}, .target = {224, 224}}, out);
//
//   resizer.resize_rows_to(out, {.part = ..., .target = ...});   // or while the image is decoded
//   decoder.decode_region(box, 1, resizer);
//
// Two passes, columns then rows, with 8-bit pixels in between, as PIL; the weights have 14 and 15 bits where PIL
// has 22. The result is within 1 of PIL's per channel. Of the rows in between there are only as many in memory as an
// output row looks at, and a few more.
//
// Thread-safety: none; one object per thread, reused.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/decode/image.h"
#include "headrace/decode/row_sink.h"

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

class Resizer final : public RowSink {
 public:
  // `in` must not be `out`.
  void resize(const Image& in, const ResizeSpec& spec, Image& out);

  // From now on the rows of an image that are handed to this are resized to `out`, which is alive until they all came.
  void resize_rows_to(Image& out, const ResizeSpec& spec);
  void begin(Size size, std::uint32_t line_width, std::uint32_t first_column) override;
  [[nodiscard]] std::uint8_t* line() override { return strip_.data() + strip_lines_ * line_bytes_; }
  void take(const std::uint8_t* row) override;

 private:
  // Decoding and resizing by turns for each line would drive the weights out of the nearest cache each time: a
  // RandomResizedCrop took 1.26 times as long (2026-11-23). 16: the height of an MCU.
  static constexpr std::size_t kStripLines = 16;

  void begin(Size size);
  void expand_columns(bool mirror);
  void add_row(const std::uint8_t* row);
  void make_room();

  ResizeSpec spec_;
  Image* out_ = nullptr;
  int row_one_ = 0;
  AxisWeights columns_;
  AxisWeights rows_;
  std::vector<std::uint32_t> offsets_;  // columns_, as the kernel wants them
  std::vector<std::int16_t> pairs_;
  std::vector<std::uint8_t> strip_;  // lines that came and are not resized yet
  std::size_t strip_lines_ = 0;
  std::size_t line_bytes_ = 0;
  std::size_t first_byte_ = 0;  // of a row in its line
  // A window of rows whose columns are resized: the input's from first_held_ on, up to the one that came last.
  std::vector<std::uint8_t> narrowed_;
  std::uint32_t window_rows_ = 0;  // that it has room for
  std::uint32_t first_held_ = 0;
  std::uint32_t rows_in_ = 0;
  std::uint32_t came_ = 0;  // rows of the input
  std::uint32_t done_ = 0;  // rows of the output
};

}  // namespace headrace::decode
