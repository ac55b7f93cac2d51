// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

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

// The library has no call-back, so it is given a longer part of the file each time. What has come is decoded once.
io::Status decode(std::span<const std::byte> bytes, Image& out, const std::atomic<bool>& stopped) {
  constexpr std::size_t kStep = std::size_t{64} * 1024;  // a millisecond or two of a photograph
  const std::unique_ptr<WebPIDecoder, decltype(&WebPIDelete)> decoder(
      WebPINewRGB(MODE_RGB, reinterpret_cast<std::uint8_t*>(out.bytes().data()), out.bytes().size(),
                  static_cast<int>(out.row_bytes())),
      &WebPIDelete);
  if (!decoder) return io::system_error(ENOMEM, "WebP");
  VP8StatusCode code = VP8_STATUS_SUSPENDED;
  for (std::size_t given = 0; code == VP8_STATUS_SUSPENDED && given < bytes.size();) {
    HEADRACE_TRY_DO(go_on_unless(stopped));
    given = std::min(given + kStep, bytes.size());
    code = WebPIUpdate(decoder.get(), data_of(bytes), given);
  }
  if (code != VP8_STATUS_OK) return make_error(ErrorCode::kCorrupt, "WebP: damaged data");
  return {};
}

}  // namespace

const Codec kWebpCodec = {read_size, decode};

}  // namespace headrace::decode
