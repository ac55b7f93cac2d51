// SPDX-License-Identifier: Apache-2.0
// Pixels to numbers: element type, memory layout and normalisation of what the training loop gets.
//
//   TensorWriter writer({.type = ElementType::kFloat16, .normalise = kImageNet});
//   writer.write(image, destination);   // writer.sample_bytes(image.size()) bytes
//
// A pixel has 256 values, so each channel's numbers come from a table of 256 entries, computed in double precision and
// rounded once, to nearest even: the result is the correctly rounded one.
//
// Thread-safety: immutable after construction; write() from several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/decode/image.h"

namespace headrace::decode {

enum class ElementType : std::uint8_t { kUint8, kFloat16, kBfloat16, kFloat32 };
enum class Layout : std::uint8_t { kChannelsFirst, kChannelsLast };  // NCHW, NHWC

[[nodiscard]] std::size_t element_bytes(ElementType type);

// (pixel / 255 - mean) / standard_deviation, per channel.
struct Normalisation {
  std::array<double, 3> mean = {0, 0, 0};
  std::array<double, 3> standard_deviation = {1, 1, 1};
};
inline constexpr Normalisation kImageNet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

struct TensorFormat {
  ElementType type = ElementType::kFloat32;
  Layout layout = Layout::kChannelsFirst;
  Normalisation normalise = {};  // ignored for kUint8, which holds the pixels themselves
};

// To nearest even; infinities and NaN as IEEE 754 has them.
[[nodiscard]] std::uint16_t to_float16(double value);
[[nodiscard]] std::uint16_t to_bfloat16(double value);

class TensorWriter {
 public:
  explicit TensorWriter(const TensorFormat& format);

  [[nodiscard]] std::size_t sample_bytes(Size size) const;
  // `out` is aligned to the element.
  void write(const Image& image, std::byte* out) const;

 private:
  template <typename Element>
  void write_elements(const Image& image, const std::vector<Element>& table, Element* out) const;

  void write_elements16(const Image& image, std::uint16_t* out) const;

  const TensorFormat format_;
  // 3 x 256 entries in the one that the type asks for.
  std::vector<std::uint8_t> table8_;
  std::vector<std::uint16_t> table16_;
  std::vector<float> table32_;
};

}  // namespace headrace::decode
