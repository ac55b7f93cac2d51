// SPDX-License-Identifier: Apache-2.0
// Walks through the Huffman codes of a JPEG's only scan, MCU by MCU, and can go on from any point that it passed
// before.
//
//   walker.begin(layout);
//   while (walker.mcu() < layout.mcu_count && walker.decode(blocks)) ...;
//   walker.seek(16, points[1]);
//
// It is stricter than libjpeg: where that repairs or guesses, the walker refuses, and libjpeg has to decide.
//
// Thread-safety: none. Ownership: the data are the caller's, alive while the walker is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/decode/internal/huffman_table.h"

namespace headrace::decode {

constexpr std::size_t kScanComponentsMax = 4;
constexpr std::size_t kMcuBlocksMax = 10;  // T.81, B.2.3
constexpr std::size_t kHuffmanTables = 4;  // of each kind

// What the headers say about a scan.
struct ScanLayout {
  std::span<const std::uint8_t> data;  // from its first byte to a marker that ends it
  std::uint32_t mcu_count = 0;
  std::uint32_t restart_interval = 0;  // MCUs; 0: none
  std::size_t components = 0;
  std::size_t blocks = 0;                                      // in an MCU
  std::array<std::uint8_t, kMcuBlocksMax> component_of = {};   // of each block
  std::array<std::uint8_t, kScanComponentsMax> dc_table = {};  // of each component
  std::array<std::uint8_t, kScanComponentsMax> ac_table = {};
  std::array<bool, kScanComponentsMax> only_dc = {};  // the other coefficients are not looked at
};

// All that decoding an MCU depends on, beside the layout.
struct ScanPoint {
  std::uint64_t bit = 0;  // from the beginning of the scan's data
  // What the next difference is added to. 16 bits are enough: coefficients have no more.
  std::array<std::int16_t, kScanComponentsMax> dc = {};
  friend bool operator==(const ScanPoint&, const ScanPoint&) = default;
};

using CoefficientBlock = std::int16_t[64];  // in the natural order, as libjpeg has them

class HuffmanWalker {
 public:
  HuffmanWalker();

  // Kept from scan to scan: making tables costs more than comparing codes.
  void set_dc_codes(std::size_t table, const HuffmanCodes& codes);
  void set_ac_codes(std::size_t table, const HuffmanCodes& codes);

  [[nodiscard]] const HuffmanCodes& dc_codes(std::size_t table) const { return dc_codes_[table]; }
  [[nodiscard]] const HuffmanCodes& ac_codes(std::size_t table) const { return ac_codes_[table]; }

  // To the first MCU. The codes of the tables that the layout names are set.
  void begin(const ScanLayout& layout);

  [[nodiscard]] std::uint32_t mcu() const { return mcu_; }  // the next one
  [[nodiscard]] ScanPoint point() const;                    // before the next one
  // False: no such place in the data.
  [[nodiscard]] bool seek(std::uint32_t mcu, const ScanPoint& point);

  // The next MCU into blocks of zeros. False: these are not the codes of a sound file, or the scan is at its end; then
  // the walker is of no use until begin() or seek().
  [[nodiscard]] bool decode(CoefficientBlock* const* blocks) { return decode_(*this, blocks); }
  [[nodiscard]] bool skip() { return skip_(*this, nullptr); }

 private:
  struct Steps;
  friend struct Steps;
  using Step = bool (*)(HuffmanWalker& walker, CoefficientBlock* const* blocks);

  // The next bits of the data, from the highest one on, without the zeros that are stuffed behind 0xff.
  struct Bits {
    const std::uint8_t* next = nullptr;
    const std::uint8_t* end = nullptr;
    std::uint64_t buffer = 0;
    int count = 0;
    int padding = 0;  // of these, how many are zeros behind the end of the data
  };

  bool restart();

  const Step decode_;
  const Step skip_;
  ScanLayout layout_;
  Bits bits_;
  std::array<std::int16_t, kScanComponentsMax> dc_ = {};
  std::uint32_t mcu_ = 0;
  std::uint32_t mcus_to_restart_ = 0;
  std::array<HuffmanCodes, kHuffmanTables> dc_codes_;
  std::array<HuffmanCodes, kHuffmanTables> ac_codes_;
  std::array<DcTable, kHuffmanTables> dc_tables_;
  std::array<AcTable, kHuffmanTables> ac_tables_;
};

}  // namespace headrace::decode
