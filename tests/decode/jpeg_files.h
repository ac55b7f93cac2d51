// SPDX-License-Identifier: Apache-2.0
// JPEG files made in memory, and the plain libjpeg loop that is the oracle for decoding them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headrace/decode/image.h"

namespace headrace::test {

enum class JpegColor : std::uint8_t { kGrey, kYcc, kRgb, kCmyk, kYcck };

// How many blocks of a component lie in one MCU, each way.
struct Sampling {
  int horizontal = 1;
  int vertical = 1;
};

struct JpegSpec {
  decode::Size size = {97, 61};
  JpegColor color = JpegColor::kYcc;
  int horizontal_sampling = 1;  // of the first component, and of black
  int vertical_sampling = 1;
  std::array<Sampling, 2> chroma = {};  // of the second and the third component
  bool progressive = false;
  bool arithmetic = false;
  bool optimised = false;         // Huffman tables of its own
  unsigned restart_interval = 0;  // MCUs
  int quality = 85;
  unsigned seed = 1;
};

using Bytes = std::vector<std::byte>;

// A picture with gradients, edges and some noise.
[[nodiscard]] std::vector<std::uint8_t> make_pixels(decode::Size size, int channels, unsigned seed);
[[nodiscard]] Bytes make_jpeg(const JpegSpec& spec);
// The TIFF structure of EXIF that holds this orientation and nothing else.
[[nodiscard]] std::string exif_tiff(unsigned orientation, std::endian order = std::endian::big);
// The same file with an EXIF segment that holds this orientation.
[[nodiscard]] Bytes with_orientation(const Bytes& jpeg, unsigned orientation, std::endian order = std::endian::big);
// The same file with one more segment (0xff, marker, length, content) at its start.
[[nodiscard]] Bytes with_segment(const Bytes& jpeg, unsigned char marker, const std::string& content);
// One of each kind that the decoder takes.
[[nodiscard]] std::vector<JpegSpec> jpeg_kinds();
[[nodiscard]] std::string describe(const JpegSpec& spec);

struct ReferenceImage {
  decode::Size size;
  int channels = 3;  // 4: CMYK as stored
  std::vector<std::uint8_t> pixels;
};
// jpeg_read_scanlines from top to bottom at 1 / reduce. Aborts on an error.
[[nodiscard]] ReferenceImage reference_decode(std::span<const std::byte> jpeg, unsigned reduce = 1);

}  // namespace headrace::test
