// SPDX-License-Identifier: Apache-2.0
// EXIF orientation: says how to turn a stored image upright.
//
//   Orientation how = exif_orientation(bytes, ImageFormat::kJpeg);
//   turn_upright(stored, how, upright);
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/decode/image.h"
#include "headrace/decode/image_format.h"

namespace headrace::decode {

// The values of EXIF tag 0x0112: where the first row and the first column of the stored image belong.
enum class Orientation : std::uint8_t {
  kUpright = 1,
  kMirrored = 2,
  kUpsideDown = 3,
  kFlipped = 4,        // top to bottom
  kTransposed = 5,     // mirrored along the main diagonal
  kTurnClockwise = 6,  // stored lying on its left side
  kTransversed = 7,    // mirrored along the other diagonal
  kTurnAnticlockwise = 8,
};

// Of a JPEG (its segments before the first scan), a PNG or a WebP file. kUpright where the file has no orientation or a
// senseless one, and for other formats.
[[nodiscard]] Orientation exif_orientation(std::span<const std::byte> bytes, ImageFormat format);

[[nodiscard]] Size upright_size(Size stored, Orientation orientation);
// The part of the stored image that `box` of the upright image (of size `upright`) shows.
[[nodiscard]] Box stored_box(const Box& box, Size upright, Orientation orientation);
void turn_upright(const Image& stored, Orientation orientation, Image& out);

}  // namespace headrace::decode
