// SPDX-License-Identifier: Apache-2.0
#include <webp/decode.h>

#include "headrace/decode/internal/codec.h"

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;

const std::uint8_t* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

io::Result<Size> read_size(std::span<const std::byte> bytes) {
  WebPBitstreamFeatures features = {};
  if (WebPGetFeatures(data_of(bytes), bytes.size(), &features) != VP8_STATUS_OK) {
    return make_error(ErrorCode::kCorrupt, "WebP: no valid header");
  }
  if (features.has_animation != 0) return make_error(ErrorCode::kUnsupported, "WebP: an animation");
  return Size{static_cast<std::uint32_t>(features.width), static_cast<std::uint32_t>(features.height)};
}

io::Status decode(std::span<const std::byte> bytes, Image& out) {
  const auto stride = static_cast<int>(out.row_bytes());
  if (WebPDecodeRGBInto(data_of(bytes), bytes.size(), out.bytes().data(), out.bytes().size(), stride) == nullptr) {
    return make_error(ErrorCode::kCorrupt, "WebP: damaged data");
  }
  return {};
}

}  // namespace

const Codec kWebpCodec = {read_size, decode};

}  // namespace headrace::decode
