// SPDX-License-Identifier: Apache-2.0
// What a JPEG that holds only a part of another one begins with, and which MCUs it has.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "headrace/decode/image.h"
#include "headrace/decode/internal/huffman_walker.h"

struct jpeg_decompress_struct;

namespace headrace::decode {

struct SpliceShape {
  Box mcus;   // of the scan
  Size size;  // of the part, in pixels
  Box box;    // what was asked for, in the part
};

// The MCUs that decoding a box of the image looks at. `info` has begun to decompress.
[[nodiscard]] SpliceShape splice_shape(const jpeg_decompress_struct& info, const Box& box);

// All that comes before the scan's data. The tables are those of `info`, but for the codes of differences.
void write_splice_header(const jpeg_decompress_struct& info, Size size,
                         const std::array<HuffmanCodes, kHuffmanTables>& dc_codes, std::vector<std::byte>& out);

}  // namespace headrace::decode
