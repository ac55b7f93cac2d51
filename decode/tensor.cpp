// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/tensor.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "headrace/decode/pixel_kernels.h"

namespace headrace::decode {
namespace {

// A binary float of `exponent_bits` and `mantissa_bits` below 64 bits in all, rounded once from a double.
std::uint16_t round_to(double value, int exponent_bits, int mantissa_bits) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | 1U << (mantissa_bits - 1));
  const double magnitude = std::abs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;
  // The weight of the last mantissa bit; subnormal numbers share the smallest one.
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const auto units = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  // `units` holds the hidden bit, which carries into the exponent; so does a mantissa that was rounded up.
  const std::uint64_t bits = (static_cast<std::uint64_t>(exponent + bias - 1) << mantissa_bits) + units;
  return static_cast<std::uint16_t>(sign | std::min<std::uint64_t>(bits, infinity));
}

template <typename Element, typename Convert>
std::vector<Element> make_table(const Normalisation& normalise, Convert convert) {
  std::vector<Element> table;
  for (std::size_t channel = 0; channel < Image::kChannels; ++channel) {
    for (int pixel = 0; pixel < 256; ++pixel) {
      table.push_back(convert((pixel / 255.0 - normalise.mean[channel]) / normalise.standard_deviation[channel]));
    }
  }
  return table;
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return 1;
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kFloat32:
      return 4;
  }
  return 0;
}

std::uint16_t to_float16(double value) {
  return round_to(value, 5, 10);
}
std::uint16_t to_bfloat16(double value) {
  return round_to(value, 8, 7);
}

TensorWriter::TensorWriter(const TensorFormat& format) : format_(format) {
  const Normalisation& normalise = format.normalise;
  if (format.type == ElementType::kUint8) {
    for (unsigned i = 0; i < Image::kChannels * 256; ++i) table8_.push_back(static_cast<std::uint8_t>(i % 256));
  }
  if (format.type == ElementType::kFloat16) table16_ = make_table<std::uint16_t>(normalise, to_float16);
  if (format.type == ElementType::kBfloat16) table16_ = make_table<std::uint16_t>(normalise, to_bfloat16);
  if (format.type == ElementType::kFloat32) {
    table32_ = make_table<float>(normalise, [](double value) { return static_cast<float>(value); });
  }
}

std::size_t TensorWriter::sample_bytes(Size size) const {
  return static_cast<std::size_t>(size.pixels()) * Image::kChannels * element_bytes(format_.type);
}

template <typename Element>
void TensorWriter::write_elements(const Image& image, const std::vector<Element>& table, Element* out) const {
  const std::span<const std::uint8_t> pixels = image.bytes();
  const Element* red = table.data();
  const Element* green = red + 256;
  const Element* blue = green + 256;
  const std::size_t count = pixels.size() / Image::kChannels;
  // Steps from pixel to pixel and from channel to channel.
  const bool planes = format_.layout == Layout::kChannelsFirst;
  Element* out_red = out;
  Element* out_green = out + (planes ? count : 1);
  Element* out_blue = out + (planes ? 2 * count : 2);
  const std::size_t step = planes ? 1 : 3;
  for (std::size_t i = 0; i < count; ++i) {
    out_red[i * step] = red[pixels[i * 3]];
    out_green[i * step] = green[pixels[i * 3 + 1]];
    out_blue[i * step] = blue[pixels[i * 3 + 2]];
  }
}

void TensorWriter::write_elements16(const Image& image, std::uint16_t* out) const {
  if (format_.layout == Layout::kChannelsLast) return write_elements(image, table16_, out);
  const std::size_t count = image.size().pixels();
  map_to_planes(image.bytes().data(), count, table16_.data(), {out, out + count, out + 2 * count});
}

void TensorWriter::write(const Image& image, std::byte* out) const {
  switch (format_.type) {
    case ElementType::kUint8:
      return write_elements(image, table8_, reinterpret_cast<std::uint8_t*>(out));
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return write_elements16(image, reinterpret_cast<std::uint16_t*>(out));
    case ElementType::kFloat32:
      return write_elements(image, table32_, reinterpret_cast<float*>(out));
  }
}

}  // namespace headrace::decode
