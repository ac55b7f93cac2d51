// SPDX-License-Identifier: Apache-2.0
// The decoding itself is ITU-T T.81, F.2.2. What makes it fast: 64 bits at hand, tables that give two coefficients at a
// look (huffman_table.h), stores without branches, and shifts of BMI2 where the processor has them.
#include "headrace/decode/internal/huffman_walker.h"

#include <bit>
#include <cstring>

#include "headrace/decode/internal/natural_order.h"

namespace headrace::decode {
#define HEADRACE_INLINE [[gnu::always_inline]] static inline

struct HuffmanWalker::Steps {
  // Byte by byte, past stuffed zeros; behind the end there are as many zeros as anyone wants.
  [[gnu::noinline]] static void fill_slowly(Bits& bits) {
    while (bits.count <= 56) {
      const bool at_end =
          bits.next == bits.end || (*bits.next == 0xff && (bits.end - bits.next < 2 || bits.next[1] != 0));
      if (at_end) {
        bits.padding += 64 - bits.count;
        bits.count = 64;
        return;
      }
      bits.buffer |= std::uint64_t{*bits.next} << (56 - bits.count);
      bits.count += 8;
      bits.next += *bits.next == 0xff ? 2 : 1;
    }
  }

  // What fill() promises. A code has up to 16 bits, its value up to 15; three looks at a table take 33.
  static constexpr int kFilledBits = 33;

  HEADRACE_INLINE void fill(Bits& bits) {
    if (bits.count >= kFilledBits) return;
    if (bits.count > 0 && bits.end - bits.next >= 4) [[likely]] {  // to none at hand, 32 more are one too few
      std::uint32_t word = 0;
      std::memcpy(&word, bits.next, 4);
      if ((((~word) - 0x01010101U) & word & 0x80808080U) == 0) [[likely]] {  // no byte is 0xff
        if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap32(word);
        bits.buffer |= std::uint64_t{word} << (32 - bits.count);
        bits.count += 32;
        bits.next += 4;
        return;
      }
    }
    Bits copy = bits;  // whose address is taken: `bits` itself stays in registers
    fill_slowly(copy);
    bits = copy;
  }

  HEADRACE_INLINE void drop(Bits& bits, unsigned count) {
    bits.buffer <<= count;
    bits.count -= static_cast<int>(count);
  }

  // `length` is at least 1.
  HEADRACE_INLINE int take_value(Bits& bits, unsigned length) {
    const int value = extended(bits.buffer >> (64 - length), length);
    drop(bits, length);
    return value;
  }

  HEADRACE_INLINE bool decode_dc(Bits& bits, const DcTable& table, std::int16_t& dc) {
    fill(bits);
    const std::uint32_t entry = table.entries[bits.buffer >> (64 - DcTable::kBits)];
    int difference = static_cast<std::int16_t>(entry >> 16);
    unsigned length = entry & DcTable::kLength;
    if ((entry & DcTable::kDirect) == 0) {
      if (length == 0) {
        const LongCodes::Found found = table.long_codes.find(bits.buffer >> 48, DcTable::kBits);
        if (found.length == 0) return false;
        length = found.length;
        difference = static_cast<int>(found.symbol);
      }
      drop(bits, length);
      const auto value_bits = static_cast<unsigned>(difference);
      if (value_bits > 15) return false;
      difference = value_bits == 0 ? 0 : take_value(bits, value_bits);
    } else {
      drop(bits, length);
    }
    dc = static_cast<std::int16_t>(dc + difference);
    return true;
  }

  enum class AcEnd : std::uint8_t { kMore, kBlock, kBad };

  // What no entry of a table holds: a code, and the bits of its value.
  template <bool kStore>
  HEADRACE_INLINE AcEnd decode_ac_by_parts(std::uint32_t entry, unsigned& k, Bits& bits, const LongCodes& long_codes,
                                           std::int16_t* block) {
    fill(bits);
    unsigned length = entry & AcTable::kLength;
    unsigned symbol = entry >> AcTable::kFirstShift & 255;
    if (length == 0) {
      const LongCodes::Found found = long_codes.find(bits.buffer >> 48, AcTable::kBits);
      if (found.length == 0) return AcEnd::kBad;
      length = found.length;
      symbol = found.symbol;
    }
    drop(bits, length);
    const unsigned value_bits = symbol & 15;
    if (value_bits == 0) {
      if (symbol >> 4 != 15) return AcEnd::kBlock;
      k += 16;
      return AcEnd::kMore;
    }
    k += symbol >> 4;
    const int value = take_value(bits, value_bits);
    if constexpr (kStore) block[kNaturalOrder[k]] = static_cast<std::int16_t>(value);
    ++k;
    return AcEnd::kMore;
  }

  // Coefficients from the k-th one on, until `k` is at least `end`.
  template <bool kStore>
  HEADRACE_INLINE AcEnd decode_ac_until(unsigned end, unsigned& k, Bits& bits, const AcTable::Entries& entries,
                                        const LongCodes& long_codes, std::int16_t* block) {
    constexpr int kLooks = 3;  // without filling in between
    static_assert(kLooks * AcTable::kBits <= kFilledBits);
    while (k < end) {
      fill(bits);
#pragma GCC unroll 3
      for (int look = 0; look < kLooks; ++look) {
        const std::uint32_t entry = entries[bits.buffer >> (64 - AcTable::kBits)];
        if ((entry & AcTable::kDirect) == 0) [[unlikely]] {
          const AcEnd done = decode_ac_by_parts<kStore>(entry, k, bits, long_codes, block);
          if (done != AcEnd::kMore) return done;
          break;
        }
        drop(bits, entry & AcTable::kLength);
        if constexpr (kStore) {
          const unsigned run = entry >> AcTable::kRunShift & 15;
          block[kNaturalOrder[k + run]] = static_cast<std::int8_t>(entry >> AcTable::kFirstShift);
        }
        k += entry >> AcTable::kAdvanceShift & 63;
        if constexpr (kStore) {
          block[kNaturalOrder[k - 1]] = static_cast<std::int8_t>(entry >> AcTable::kSecondShift);
        }
        if (entry & AcTable::kLast) return AcEnd::kBlock;
        if (k >= end) return AcEnd::kMore;
      }
    }
    return AcEnd::kMore;
  }

  template <bool kStore>
  HEADRACE_INLINE bool decode_ac(Bits& bits, const AcTable& table, std::int16_t* block) {
    constexpr unsigned kCoefficients = 64;
    unsigned k = 1;
    AcEnd end =
        decode_ac_until<kStore>(kCoefficients - AcTable::kRunMax, k, bits, table.entries, table.long_codes, block);
    if (end == AcEnd::kMore) {
      end = decode_ac_until<kStore>(kCoefficients, k, bits, table.single, table.long_codes, block);
    }
    return end != AcEnd::kBad && k <= kCoefficients;
  }

  template <bool kStore>
  HEADRACE_INLINE bool step(HuffmanWalker& walker, CoefficientBlock* const* blocks) {
    const ScanLayout& layout = walker.layout_;
    if (walker.mcu_ == layout.mcu_count) return false;
    if (walker.mcus_to_restart_ == 0 && !walker.restart()) return false;
    Bits bits = walker.bits_;
    for (std::size_t i = 0; i < layout.blocks; ++i) {
      const std::size_t component = layout.component_of[i];
      if (!decode_dc(bits, walker.dc_tables_[layout.dc_table[component]], walker.dc_[component])) return false;
      const AcTable& ac_table = walker.ac_tables_[layout.ac_table[component]];
      if constexpr (kStore) {
        std::int16_t* block = *blocks[i];
        block[0] = walker.dc_[component];
        if (!layout.only_dc[component]) {
          if (!decode_ac<true>(bits, ac_table, block)) return false;
          continue;
        }
      }
      if (!decode_ac<false>(bits, ac_table, nullptr)) return false;
    }
    walker.bits_ = bits;
    ++walker.mcu_;
    --walker.mcus_to_restart_;
    return bits.count >= bits.padding;  // otherwise the codes went on behind the end of the data
  }

  template <bool kStore>
  static bool plain_step(HuffmanWalker& walker, CoefficientBlock* const* blocks) {
    return step<kStore>(walker, blocks);
  }

#if defined(__x86_64__)
  template <bool kStore>
  [[gnu::target("bmi2")]] static bool bmi2_step(HuffmanWalker& walker, CoefficientBlock* const* blocks) {
    return step<kStore>(walker, blocks);
  }

  template <bool kStore>
  static Step choose() {
    return __builtin_cpu_supports("bmi2") ? bmi2_step<kStore> : plain_step<kStore>;
  }
#else
  template <bool kStore>
  static Step choose() {
    return plain_step<kStore>;
  }
#endif
};

#undef HEADRACE_INLINE

HuffmanWalker::HuffmanWalker() : decode_(Steps::choose<true>()), skip_(Steps::choose<false>()) {}

void HuffmanWalker::set_dc_codes(std::size_t table, const HuffmanCodes& codes) {
  if (dc_codes_[table] == codes) return;
  dc_codes_[table] = codes;
  dc_tables_[table].set(codes);
}

void HuffmanWalker::set_ac_codes(std::size_t table, const HuffmanCodes& codes) {
  if (ac_codes_[table] == codes) return;
  ac_codes_[table] = codes;
  ac_tables_[table].set(codes);
}

void HuffmanWalker::begin(const ScanLayout& layout) {
  layout_ = layout;
  static_cast<void>(seek(0, {}));
}

bool HuffmanWalker::seek(std::uint32_t mcu, const ScanPoint& point) {
  if (point.bit / 8 > layout_.data.size()) return false;
  bits_ = {.next = layout_.data.data() + point.bit / 8, .end = layout_.data.data() + layout_.data.size()};
  Steps::fill_slowly(bits_);
  bits_.buffer <<= point.bit % 8;
  bits_.count -= static_cast<int>(point.bit % 8);
  dc_ = point.dc;
  mcu_ = mcu;
  const std::uint32_t interval = layout_.restart_interval;
  const std::uint32_t since = interval > 0 ? mcu % interval : 0;
  mcus_to_restart_ = since == 0 && mcu > 0 ? 0 : interval - since;
  if (interval == 0) mcus_to_restart_ = UINT32_MAX;
  return true;
}

// Back from the next byte over those that have bits in the buffer. Among them 0xff and 0 are always one byte and the
// zero stuffed behind it.
ScanPoint HuffmanWalker::point() const {
  const int unread = bits_.count - bits_.padding;
  const std::uint8_t* byte = bits_.next;
  for (int i = 0; i < (unread + 7) / 8; ++i) {
    const bool stuffed = byte - layout_.data.data() >= 2 && byte[-1] == 0 && byte[-2] == 0xff;
    byte -= stuffed ? 2 : 1;
  }
  const auto first_bit = static_cast<std::uint64_t>((8 - unread % 8) % 8);
  return {static_cast<std::uint64_t>(byte - layout_.data.data()) * 8 + first_bit, dc_};
}

// Only a marker that stands where it has to, and has the right number. libjpeg looks for lost ones.
bool HuffmanWalker::restart() {
  if (bits_.count - bits_.padding >= 8 || bits_.next == bits_.end || *bits_.next != 0xff) return false;
  const std::uint8_t* byte = bits_.next;
  while (byte != bits_.end && *byte == 0xff) ++byte;  // any number of them may come before a marker
  const unsigned number = (mcu_ / layout_.restart_interval - 1) % 8;
  if (byte == bits_.end || *byte != 0xd0 + number) return false;
  bits_ = {.next = byte + 1, .end = bits_.end};
  dc_ = {};
  mcus_to_restart_ = layout_.restart_interval;
  return true;
}

}  // namespace headrace::decode
