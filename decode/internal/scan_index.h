// SPDX-License-Identifier: Apache-2.0
// Points within a JPEG's Huffman codes from which decoding can go on, so that a crop need not decode what lies before
// it.
//
//   ScanIndex index;
//   index.begin(layout);
//   if (index.wants(walker.mcu())) index.add(walker.point());   // while somebody decodes all MCUs in order
//   std::vector<std::byte> packed = index.pack(content);
//
// It covers the MCUs from the first one up to where somebody has decoded; these are known to be sound. An index belongs
// to exactly the bytes that it was made from: their checksum is part of it.
//
// Packed, little-endian: magic (4 bytes, the last one is the version), covered MCUs (4), widths in bits of a point's
// fields (position, then 4 components; 5), 3 zeros, checksum (8: XXH3 of all else, seeded with the content's). Then the
// differences between points, bit by bit, the lowest first: of the position, and of each component's value, which
// counts 0, -1, 1, -2 and so on.
//
// Thread-safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/decode/internal/huffman_walker.h"

namespace headrace::decode {

class ScanIndex {
 public:
  // Empty, for a scan like this.
  void begin(const ScanLayout& layout);

  // MCUs from one point to the next. Follows from the layout.
  [[nodiscard]] std::uint32_t step() const { return step_; }
  // So many MCUs, from the first one on, were decoded and are sound.
  [[nodiscard]] std::uint32_t covered() const { return covered_; }
  void cover(std::uint32_t mcus) { covered_ = mcus; }

  // Whether a point before this MCU is the next one to add.
  [[nodiscard]] bool wants(std::uint32_t mcu) const { return mcu == points_.size() * step_; }
  void add(const ScanPoint& point) { points_.push_back(point); }
  // The point before MCU `number` * step(). The first one is always there.
  [[nodiscard]] std::span<const ScanPoint> points() const { return points_; }

  [[nodiscard]] std::vector<std::byte> pack(std::uint64_t content) const;
  // False, and empty as after begin(), if these are not the bytes that pack() made for this content and this layout.
  [[nodiscard]] bool unpack(std::span<const std::byte> packed, std::uint64_t content);
  // Whether these are bytes that pack() made for this content, of whatever layout.
  [[nodiscard]] static bool is_sound(std::span<const std::byte> packed, std::uint64_t content);

 private:
  bool unpack_points(std::span<const std::byte> packed);
  void clear();

  std::uint32_t step_ = 1;
  std::uint32_t mcu_count_ = 0;
  std::uint64_t bits_max_ = 0;  // of the scan
  std::size_t components_ = 0;
  std::uint32_t covered_ = 0;
  std::vector<ScanPoint> points_;
};

}  // namespace headrace::decode
