// SPDX-License-Identifier: Apache-2.0
// Any image file to RGB; the format is found from the content.
//
//   ImageDecoder decoder({});
//   Status done = decoder.decode(bytes, image);
//
//   auto info = decoder.open(bytes);                        // only a part:
//   decoder.decode_region({10, 10, 200, 200}, 1, image);
//
// Thread-safety: none; one decoder per thread, reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "headrace/decode/decode_options.h"
#include "headrace/decode/image.h"
#include "headrace/decode/jpeg_decoder.h"
#include "headrace/decode/orientation.h"
#include "headrace/io/result.h"

namespace headrace::decode {

class ImageDecoder {
 public:
  explicit ImageDecoder(const DecodeOptions& options) : options_(options), jpeg_(options) {}

  // The size as people see it, orientation applied. `bytes` stay the caller's, alive until the decoding ends.
  // Errors: kCorrupt, kUnsupported (no known format, or a variant of one), kInvalidArgument (limits).
  [[nodiscard]] Result<Size> open(std::span<const std::byte> bytes);

  // Decodes what open() was given, once: the part `box` of the image reduced by 1, 2, 4 or 8, in its coordinates as
  // people see it. The size in them is reduced(size, reduce).
  [[nodiscard]] Status decode_region(const Box& box, std::uint32_t reduce, Image& out);
  // Largest `reduce` that this file can be decoded with.
  [[nodiscard]] std::uint32_t reduce_max() const { return 8; }

  [[nodiscard]] Status decode(std::span<const std::byte> bytes, Image& out);

  // What was repaired or salvaged in the last decoding; empty for a sound file.
  [[nodiscard]] const std::string& damage() const { return jpeg_.damage(); }

 private:
  const DecodeOptions options_;
  JpegDecoder jpeg_;
  Orientation orientation_ = Orientation::kUpright;
  Size size_;     // as people see it
  Image stored_;  // before it is turned upright
};

}  // namespace headrace::decode
