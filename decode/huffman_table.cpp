// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/huffman_table.h"

#include <algorithm>

namespace headrace::decode {
namespace {

// Calls `each(code, length, symbol)` for the codes of up to `length_max` bits, in their order (T.81, C.2).
template <typename Each>
void for_each_code(const HuffmanCodes& codes, unsigned length_max, Each&& each) {
  unsigned code = 0;
  std::size_t place = 0;
  for (unsigned length = 1; length <= length_max; ++length, code <<= 1) {
    for (unsigned i = 0; i < codes.counts[length]; ++i) each(code++, length, unsigned{codes.symbols[place++]});
  }
}

constexpr unsigned kZeroRun = 0xf0;  // 16 zeros; every other symbol without a value ends the block

std::uint32_t direct_entry(unsigned length, unsigned run, int value) {
  const auto byte = static_cast<std::uint32_t>(static_cast<std::uint8_t>(value));
  return length | AcTable::kDirect | (run + 1) << AcTable::kAdvanceShift | run << AcTable::kRunShift |
         byte << AcTable::kFirstShift | byte << AcTable::kSecondShift;
}

// One symbol an entry. The end of a block looks like a zero that is stored where nothing else was: no special case.
void set_single(const HuffmanCodes& codes, AcTable::Entries& entries) {
  entries = {};
  for_each_code(codes, AcTable::kBits, [&](unsigned code, unsigned length, unsigned symbol) {
    const unsigned free_bits = AcTable::kBits - length;
    std::uint32_t* entry = &entries[std::size_t{code} << free_bits];
    const unsigned value_bits = symbol & 15;
    if (value_bits == 0) {
      const std::uint32_t same =
          symbol == kZeroRun ? direct_entry(length, 15, 0) : direct_entry(length, 0, 0) | AcTable::kLast;
      std::fill_n(entry, std::size_t{1} << free_bits, same);
    } else if (value_bits <= free_bits && value_bits <= 7) {
      const std::size_t repeats = std::size_t{1} << (free_bits - value_bits);
      for (std::uint64_t bits = 0; bits < std::uint64_t{1} << value_bits; ++bits, entry += repeats) {
        std::fill_n(entry, repeats, direct_entry(length + value_bits, symbol >> 4, extended(bits, value_bits)));
      }
    } else {
      std::fill_n(entry, std::size_t{1} << free_bits, length | symbol << AcTable::kFirstShift);
    }
  });
}

std::uint32_t joined(std::uint32_t first, std::uint32_t second) {
  constexpr std::uint32_t kAdvance = 63U << AcTable::kAdvanceShift;
  constexpr std::uint32_t kSecond = 0xffU << AcTable::kSecondShift;
  const std::uint32_t longer = first + (second & AcTable::kLength);
  if (second & AcTable::kLast) return longer | AcTable::kLast;
  return ((longer + (second & kAdvance)) & ~kSecond) | (second & kSecond);
}

}  // namespace

void LongCodes::set(const HuffmanCodes& codes) {
  symbols_ = codes.symbols;
  std::uint32_t code = 0;
  std::int32_t place = 0;
  for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
    offsets_[length] = place - static_cast<std::int32_t>(code);
    code += codes.counts[length];
    place += codes.counts[length];
    ends_[length] = code << (16 - length);
  }
}

LongCodes::Found LongCodes::find(std::uint64_t next_16_bits, unsigned longer_than) const {
  for (unsigned length = longer_than + 1; length <= 16; ++length) {
    if (next_16_bits >= ends_[length]) continue;
    const auto code = static_cast<std::int32_t>(next_16_bits >> (16 - length));
    return {length, symbols_[static_cast<std::uint8_t>(code + offsets_[length])]};
  }
  return {0, 0};
}

void DcTable::set(const HuffmanCodes& codes) {
  entries = {};
  long_codes.set(codes);
  for_each_code(codes, kBits, [&](unsigned code, unsigned length, unsigned value_bits) {
    const unsigned free_bits = kBits - length;
    std::uint32_t* entry = &entries[std::size_t{code} << free_bits];
    if (value_bits > free_bits) {
      std::fill_n(entry, std::size_t{1} << free_bits, length | value_bits << 16);
      return;
    }
    const std::size_t repeats = std::size_t{1} << (free_bits - value_bits);
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << value_bits; ++bits, entry += repeats) {
      const int value = value_bits == 0 ? 0 : extended(bits, value_bits);
      std::fill_n(entry, repeats, (length + value_bits) | kDirect | static_cast<std::uint32_t>(value) << 16);
    }
  });
}

void AcTable::set(const HuffmanCodes& codes) {
  long_codes.set(codes);
  set_single(codes, single);
  constexpr std::size_t kMask = (std::size_t{1} << kBits) - 1;
  for (std::size_t bits = 0; bits < single.size(); ++bits) {
    const std::uint32_t first = single[bits];
    const std::uint32_t length = first & kLength;
    const std::uint32_t second = single[bits << length & kMask];
    // A second symbol counts only if all of its bits are among those that were looked at.
    const bool both = (first & kDirect) != 0 && (first & kLast) == 0 && (second & kDirect) != 0 &&
                      length + (second & kLength) <= kBits;
    entries[bits] = both ? joined(first, second) : first;
  }
}

}  // namespace headrace::decode
