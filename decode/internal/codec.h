// SPDX-License-Identifier: Apache-2.0
// Formats that are decoded whole, unlike JPEG: one pair of functions each.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "headrace/decode/image.h"
#include "headrace/decode/image_format.h"
#include "headrace/io/result.h"

namespace headrace::decode {

struct Codec {
  // From the header alone. Errors: kCorrupt, kUnsupported.
  io::Result<Size> (*read_size)(std::span<const std::byte> bytes);
  // `out` already has the size that read_size() found. Errors: as above; kSystem with ENOMEM.
  io::Status (*decode)(std::span<const std::byte> bytes, Image& out);
};

extern const Codec kPngCodec;
extern const Codec kBmpCodec;
extern const Codec kWebpCodec;
extern const Codec kNumpyCodec;
extern const Codec kCifarCodec;

// nullptr: JPEG or unknown.
[[nodiscard]] const Codec* codec_of(ImageFormat format);

}  // namespace headrace::decode
