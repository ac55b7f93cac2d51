// SPDX-License-Identifier: Apache-2.0
// Writes the Huffman codes of a scan that is cut out of another one: whole MCUs anew where what comes before them is
// missing, and the bits of the others as they are.
//
//   ScanWriter writer(out);
//   writer.set_dc_codes(0, codes);                     // of each table that the layout names
//   if (!writer.write_mcu(layout, blocks)) ...         // the first of a row
//   writer.copy_bits(layout.data, from, to);           // those behind it
//   writer.finish();
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/decode/internal/huffman_walker.h"

namespace headrace::decode {

// Gives a code to each difference of up to 11 bits, which are all that a file of 8 bits needs. The codes that are there
// stay as they are, so the new ones are longer. False: 16 bits have no room for them.
[[nodiscard]] bool complete_dc_codes(HuffmanCodes& codes);

class ScanWriter {
 public:
  explicit ScanWriter(std::vector<std::byte>& out) : out_(out) {}

  void set_dc_codes(std::size_t table, const HuffmanCodes& codes) { dc_codes_[table].set(codes); }
  void set_ac_codes(std::size_t table, const HuffmanCodes& codes) { ac_codes_[table].set(codes); }

  // False: a table has no code for what is to be written.
  [[nodiscard]] bool write_mcu(const ScanLayout& layout, const CoefficientBlock* blocks);
  // What follows the MCU that was written last. `to.dc`: behind it.
  void copy_bits(std::span<const std::uint8_t> data, const ScanPoint& from, const ScanPoint& to);
  // Fills up the last byte, with ones.
  void finish();

 private:
  struct Codes {
    std::array<std::uint16_t, 256> code = {};
    std::array<std::uint8_t, 256> length = {};  // 0: there is none
    void set(const HuffmanCodes& codes);
  };

  void write(std::uint32_t bits, unsigned count);  // at most 16
  [[nodiscard]] bool write_symbol(const Codes& codes, unsigned symbol);
  void write_value(int value, unsigned length);
  [[nodiscard]] bool write_dc(const Codes& codes, int difference);
  [[nodiscard]] bool write_ac(const Codes& codes, const CoefficientBlock& block);

  std::vector<std::byte>& out_;
  std::uint32_t held_ = 0;
  unsigned held_bits_ = 0;
  std::array<std::int16_t, kScanComponentsMax> dc_ = {};  // of the last block of each component
  std::array<Codes, kHuffmanTables> dc_codes_;
  std::array<Codes, kHuffmanTables> ac_codes_;
};

}  // namespace headrace::decode
