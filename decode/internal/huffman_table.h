// SPDX-License-Identifier: Apache-2.0
// The Huffman codes of a JPEG as look-up tables: one look at the next bits does several steps of the standard's
// decoding (ITU-T T.81, F.2.2).
//
// Thread-safety: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headrace::decode {

// As a DHT segment has them. The caller has checked that they are a prefix code (libjpeg does).
struct HuffmanCodes {
  std::array<std::uint8_t, 17> counts = {};  // of codes with 1 to 16 bits; the first number is not used
  std::array<std::uint8_t, 256> symbols = {};
  friend bool operator==(const HuffmanCodes&, const HuffmanCodes&) = default;
};

// Finds what is too long for a look-up table.
class LongCodes {
 public:
  void set(const HuffmanCodes& codes);
  struct Found {
    unsigned length;  // 0: no code begins so
    unsigned symbol;
  };
  [[nodiscard]] Found find(std::uint64_t next_16_bits, unsigned longer_than) const;

 private:
  std::array<std::uint32_t, 17> ends_ = {};  // of the codes of each length, as 16 bits
  std::array<std::int32_t, 17> offsets_ = {};
  std::array<std::uint8_t, 256> symbols_ = {};
};

// The first coefficient of a block: a difference.
struct DcTable {
  static constexpr unsigned kBits = 9;  // 12 bits were slower: such a table is rarely in the cache
  // Bits 0 to 4: how many bits this takes. 0: the code is longer than kBits.
  // Bit 5: the difference is in the upper half. Otherwise its length is there: that many bits follow the code.
  static constexpr std::uint32_t kLength = 31;
  static constexpr std::uint32_t kDirect = 32;
  std::array<std::uint32_t, std::size_t{1} << kBits> entries = {};
  LongCodes long_codes;

  void set(const HuffmanCodes& codes);
};

// The other coefficients: runs of zeros and what ends them. One entry may stand for two of them, or for one and the
// end of the block. Where the first one may complete the block, `single` has to be used: the next symbol is of another
// block then.
struct AcTable {
  static constexpr unsigned kBits = 11;
  static constexpr std::uint32_t kLength = 15;  // how many bits this takes; 0: the code is longer than kBits
  static constexpr std::uint32_t kLast = 16;    // the block ends
  static constexpr std::uint32_t kDirect = 32;  // the rest is as follows; otherwise bits 16 to 23 are the symbol
  static constexpr unsigned kAdvanceShift = 6;  // 6 bits: by how many coefficients this goes on
  static constexpr unsigned kRunShift = 12;     // 4 bits: zeros before the first one
  static constexpr unsigned kFirstShift = 16;   // 8 bits with sign: the first one
  static constexpr unsigned kSecondShift = 24;  // 8 bits with sign: the last one, which may be the first one, too
  static constexpr unsigned kRunMax = 16;       // by how much one symbol goes on at most
  using Entries = std::array<std::uint32_t, std::size_t{1} << kBits>;
  Entries entries = {};
  Entries single = {};  // one symbol an entry
  LongCodes long_codes;

  void set(const HuffmanCodes& codes);
};

// The number that a code's `length` extra bits stand for (T.81, F.2.2.1, EXTEND). Without a branch, because half of the
// numbers are negative.
[[nodiscard]] inline int extended(std::uint64_t bits, unsigned length) {
  const int value = static_cast<int>(bits);
  const int negative = (value - (1 << (length - 1))) >> 31;  // all ones if so
  return value + (negative & (1 - (1 << length)));
}

}  // namespace headrace::decode
