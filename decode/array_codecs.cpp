// SPDX-License-Identifier: Apache-2.0
// Pixels that are not compressed at all: NumPy's .npy files and CIFAR's records.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "headrace/decode/internal/codec.h"

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;
using Bytes = std::span<const std::byte>;

// NEP 1: magic, version (2 bytes), length of the header (2 bytes; 4 from version 2 on), header: a Python dictionary as
// text, for instance {'descr': '|u1', 'fortran_order': False, 'shape': (32, 32, 3), }.
struct Array {
  Size size;
  std::size_t channels = 1;
  Bytes data;
};

std::string_view after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
}

// The numbers of "(32, 32, 3), }"; nothing if it is malformed.
std::vector<std::uint32_t> parse_shape(std::string_view text) {
  std::vector<std::uint32_t> shape;
  const std::size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) return {};
  const char* at = text.data() + 1;
  const char* const last = text.data() + end;
  while (at < last && shape.size() < 4) {
    std::uint32_t number = 0;
    const auto [stop, error] = std::from_chars(at, last, number);
    if (error != std::errc()) return {};
    shape.push_back(number);
    at = std::find_if(stop, last, [](char c) { return c != ',' && c != ' '; });
  }
  return shape;
}

io::Result<std::string_view> header_text(Bytes bytes, Bytes& data) {
  constexpr std::size_t kVersionAt = 6;
  if (bytes.size() < 12) return make_error(ErrorCode::kCorrupt, "NumPy array: ends in its header");
  const std::size_t length_bytes = bytes[kVersionAt] == std::byte{1} ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | std::to_integer<std::size_t>(bytes[8 + i]);
  const std::size_t begin = 8 + length_bytes;
  if (length > bytes.size() - begin) return make_error(ErrorCode::kCorrupt, "NumPy array: ends in its header");
  data = bytes.subspan(begin + length);
  return std::string_view(reinterpret_cast<const char*>(&bytes[begin]), length);
}

io::Result<Array> read_array(Bytes bytes) {
  Array array;
  HEADRACE_TRY(text, header_text(bytes, array.data));
  if (!after(text, "'descr': ").starts_with("'|u1'") || !after(text, "'fortran_order': ").starts_with("False")) {
    return make_error(ErrorCode::kUnsupported, "NumPy array: not unsigned bytes in C order");
  }
  const std::vector<std::uint32_t> shape = parse_shape(after(text, "'shape': "));
  if (shape.size() == 3) array.channels = shape[2];
  if (shape.size() < 2 || shape.size() > 3 || (array.channels != 1 && array.channels != 3)) {
    return make_error(ErrorCode::kUnsupported, "NumPy array: not (height, width), (height, width, 1 or 3)");
  }
  array.size = {shape[1], shape[0]};
  return array;
}

io::Result<Size> read_numpy_size(Bytes bytes) {
  HEADRACE_TRY(array, read_array(bytes));
  return array.size;
}

io::Status decode_numpy(Bytes bytes, Image& out, const std::atomic<bool>& /*stopped*/) {
  HEADRACE_TRY(array, read_array(bytes));
  if (array.data.size() < array.size.pixels() * array.channels) {
    return make_error(ErrorCode::kCorrupt, "NumPy array: ends early");
  }
  const auto* from = reinterpret_cast<const std::uint8_t*>(array.data.data());
  const std::span<std::uint8_t> to = out.bytes();
  if (array.channels == 3) {
    std::memcpy(to.data(), from, to.size());
  } else {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i / 3];
  }
  return {};
}

constexpr std::uint32_t kCifarSide = 32;

io::Result<Size> read_cifar_size(Bytes) {
  return Size{kCifarSide, kCifarSide};
}

// One or two bytes of labels, then the red, the green and the blue plane.
io::Status decode_cifar(Bytes bytes, Image& out, const std::atomic<bool>& /*stopped*/) {
  constexpr std::size_t kPlane = std::size_t{kCifarSide} * kCifarSide;
  const Bytes planes = bytes.last(3 * kPlane);
  const std::span<std::uint8_t> to = out.bytes();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::to_integer<std::uint8_t>(planes[i % 3 * kPlane + i / 3]);
  return {};
}

}  // namespace

const Codec kNumpyCodec = {read_numpy_size, decode_numpy};
const Codec kCifarCodec = {read_cifar_size, decode_cifar};

}  // namespace headrace::decode
