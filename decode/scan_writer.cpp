// SPDX-License-Identifier: Apache-2.0
// The encoding is ITU-T T.81, F.1.2.
#include "headrace/decode/internal/scan_writer.h"

#include <bit>
#include <cstdlib>

#include "headrace/decode/internal/natural_order.h"

namespace headrace::decode {
namespace {

constexpr unsigned kDcSymbols = 12;
constexpr unsigned kCodeBitsMax = 16;
constexpr unsigned kZeroRun = 0xf0;  // sixteen zeros
constexpr unsigned kEndOfBlock = 0;

unsigned bits_of(int value) {
  return static_cast<unsigned>(std::bit_width(static_cast<unsigned>(std::abs(value))));
}

}  // namespace

bool complete_dc_codes(HuffmanCodes& codes) {
  std::array<bool, 256> known = {};
  std::size_t count = 0;
  unsigned longest = 1;
  std::uint32_t next = 0;  // the first code of `longest` bits that nobody has
  for (unsigned length = 1; length <= kCodeBitsMax; ++length) {
    for (unsigned i = 0; i < codes.counts[length] && count < codes.symbols.size(); ++i) {
      known[codes.symbols[count++]] = true;
      next = (next << (length - longest)) + 1;
      longest = length;
    }
  }
  std::uint32_t missing = 0;
  for (unsigned symbol = 0; symbol < kDcSymbols; ++symbol) missing += known[symbol] ? 0 : 1;
  if (missing == 0) return true;
  if (count + missing > 255) return false;  // a hostile table names symbols more than once; its counts are bytes
  unsigned length = longest;
  // No code consists of ones alone.
  const auto room = [&] { return (1U << length) - (next << (length - longest)); };
  while (length <= kCodeBitsMax && room() < missing + 1) ++length;
  if (length > kCodeBitsMax) return false;
  for (unsigned symbol = 0; symbol < kDcSymbols; ++symbol) {
    if (!known[symbol]) codes.symbols[count++] = static_cast<std::uint8_t>(symbol);
  }
  codes.counts[length] = static_cast<std::uint8_t>(codes.counts[length] + missing);
  return true;
}

void ScanWriter::Codes::set(const HuffmanCodes& codes) {
  length.fill(0);
  std::size_t count = 0;
  std::uint32_t next = 0;
  for (unsigned bits = 1; bits <= kCodeBitsMax; ++bits, next <<= 1) {
    for (unsigned i = 0; i < codes.counts[bits] && count < codes.symbols.size(); ++i) {
      const std::uint8_t symbol = codes.symbols[count++];
      code[symbol] = static_cast<std::uint16_t>(next++);
      length[symbol] = static_cast<std::uint8_t>(bits);
    }
  }
}

void ScanWriter::write(std::uint32_t bits, unsigned count) {
  held_ = held_ << count | bits;
  for (held_bits_ += count; held_bits_ >= 8; held_bits_ -= 8) {
    const auto byte = static_cast<std::uint8_t>(held_ >> (held_bits_ - 8));
    out_.push_back(std::byte{byte});
    if (byte == 0xff) out_.push_back(std::byte{0});
  }
}

bool ScanWriter::write_symbol(const Codes& codes, unsigned symbol) {
  if (codes.length[symbol] == 0) return false;
  write(codes.code[symbol], codes.length[symbol]);
  return true;
}

void ScanWriter::write_value(int value, unsigned length) {
  const int bits = value < 0 ? value - 1 : value;
  write(static_cast<std::uint32_t>(bits) & ((1U << length) - 1), length);
}

bool ScanWriter::write_dc(const Codes& codes, int difference) {
  const unsigned length = bits_of(difference);
  if (!write_symbol(codes, length)) return false;
  if (length > 0) write_value(difference, length);
  return true;
}

bool ScanWriter::write_ac(const Codes& codes, const CoefficientBlock& block) {
  unsigned run = 0;
  for (unsigned k = 1; k < 64; ++k) {
    const int value = block[kNaturalOrder[k]];
    if (value == 0) {
      ++run;
      continue;
    }
    for (; run > 15; run -= 16) {
      if (!write_symbol(codes, kZeroRun)) return false;
    }
    const unsigned length = bits_of(value);
    if (length > 15 || !write_symbol(codes, run << 4 | length)) return false;
    write_value(value, length);
    run = 0;
  }
  return run == 0 || write_symbol(codes, kEndOfBlock);
}

bool ScanWriter::write_mcu(const ScanLayout& layout, const CoefficientBlock* blocks) {
  for (std::size_t i = 0; i < layout.blocks; ++i) {
    const std::size_t component = layout.component_of[i];
    const std::int16_t dc = blocks[i][0];
    const auto difference = static_cast<std::int16_t>(dc - dc_[component]);  // modulo 2^16, as it is read
    dc_[component] = dc;
    if (!write_dc(dc_codes_[layout.dc_table[component]], difference)) return false;
    if (!write_ac(ac_codes_[layout.ac_table[component]], blocks[i])) return false;
  }
  return true;
}

void ScanWriter::copy_bits(std::span<const std::uint8_t> data, const ScanPoint& from, const ScanPoint& to) {
  const std::size_t end = to.bit / 8;
  std::size_t place = from.bit / 8;
  auto used = static_cast<unsigned>(from.bit % 8);  // of the byte there
  while (place < end) {
    const std::uint8_t byte = data[place];
    write(byte & (0xffU >> used), 8 - used);
    place += byte == 0xff ? 2 : 1;  // a zero is stuffed behind it
    used = 0;
  }
  const auto last = static_cast<unsigned>(to.bit % 8);
  if (last > used)
    write(static_cast<std::uint32_t>(data[place] >> (8 - last)) & ((1U << (last - used)) - 1), last - used);
  dc_ = to.dc;
}

void ScanWriter::finish() {
  if (held_bits_ > 0) write((1U << (8 - held_bits_)) - 1, 8 - held_bits_);
}

}  // namespace headrace::decode
