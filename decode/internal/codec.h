// SPDX-License-Identifier: Apache-2.0
// Formats that are decoded whole, unlike JPEG: one pair of functions each.
//
// Thread-safety: pure functions.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "headrace/decode/image.h"
#include "headrace/decode/image_format.h"
#include "headrace/io/result.h"

namespace headrace::decode {

struct Codec {
  // From the header alone. Errors: kCorrupt, kUnsupported.
  io::Result<Size> (*read_size)(std::span<const std::byte> bytes);
  // `out` already has the size that read_size() found. Looks at `stopped` again and again where decoding takes long.
  // Errors: as above; kSystem with ENOMEM; kCancelled.
  io::Status (*decode)(std::span<const std::byte> bytes, Image& out, const std::atomic<bool>& stopped);
};

// Errors: kCancelled.
[[nodiscard]] inline io::Status go_on_unless(const std::atomic<bool>& stopped) {
  if (stopped.load(std::memory_order_relaxed)) return io::make_error(io::ErrorCode::kCancelled, "stopped");
  return {};
}

extern const Codec kPngCodec;
extern const Codec kBmpCodec;
extern const Codec kWebpCodec;
extern const Codec kNumpyCodec;
extern const Codec kCifarCodec;

// nullptr: JPEG or unknown.
[[nodiscard]] const Codec* codec_of(ImageFormat format);

}  // namespace headrace::decode
