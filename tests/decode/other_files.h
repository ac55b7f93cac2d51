// SPDX-License-Identifier: Apache-2.0
// Files of other formats than JPEG, made in memory. Aborts where an encoder fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/jpeg_files.h"

namespace headrace::test {

// Of all these files unless they say otherwise; rows of 111 bytes, which BMP has to pad.
inline constexpr decode::Size kPictureSize = {37, 23};

[[nodiscard]] Bytes bytes_of(const std::string& text);

// With an EXIF chunk, unless `exif` is empty.
[[nodiscard]] Bytes make_png(const std::vector<std::uint8_t>& rgb, const std::string& exif = "");
// The high byte of each number is as in `rgb`; the low byte differs from it.
[[nodiscard]] Bytes make_png_of_16_bits(const std::vector<std::uint8_t>& rgb);
[[nodiscard]] Bytes make_interlaced_png(const std::vector<std::uint8_t>& rgb);
// Without loss.
[[nodiscard]] Bytes make_webp(const std::vector<std::uint8_t>& rgb, decode::Size size = kPictureSize);
// The same file in the extended form, with an EXIF chunk at its end.
[[nodiscard]] Bytes with_exif_chunk(const Bytes& webp, const std::string& exif);
// Headers of 54 bytes, then the palette, then the rows as given.
[[nodiscard]] Bytes make_bmp(std::int32_t height, std::uint32_t bits, const std::string& palette,
                             const std::string& rows, std::uint32_t compression = 0);
// The rows of a 24- or 32-bit bitmap.
[[nodiscard]] std::string bgr_rows(const std::vector<std::uint8_t>& rgb, bool top_down, std::size_t pixel_bytes);
[[nodiscard]] Bytes make_npy(const std::string& shape, const std::vector<std::uint8_t>& data,
                             const std::string& type = "|u1");

}  // namespace headrace::test
