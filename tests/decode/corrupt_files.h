// SPDX-License-Identifier: Apache-2.0
// Damaged files, made from sound ones: the same seed makes the same damage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/jpeg_files.h"

namespace headrace::test {

// Where each marker of a JPEG file begins: the segments and the scans' restart markers.
[[nodiscard]] std::vector<std::size_t> marker_offsets(const Bytes& jpeg);

struct DamagedFile {
  std::string what;
  Bytes bytes;
};

// Cut off before, inside and after each marker; each segment's length wrong in several ways; Huffman and quantisation
// tables overwritten; a frame of 65500 x 65500; segments missing or doubled.
[[nodiscard]] std::vector<DamagedFile> damage_systematically(const Bytes& jpeg);
// Random bytes overwritten, removed, inserted or repeated.
[[nodiscard]] DamagedFile damage_randomly(const Bytes& file, std::uint64_t seed);
// A progressive file that repeats its last scan until it has `scans` of them.
[[nodiscard]] Bytes with_many_scans(std::size_t scans);

}  // namespace headrace::test
