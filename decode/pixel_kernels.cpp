// SPDX-License-Identifier: Apache-2.0
// Highway compiles this file once per instruction set (foreach_target.h includes it again and again); everything
// between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE exists once in each namespace HWY_NAMESPACE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headrace/decode/pixel_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway wants it.
#include <hwy/highway.h>

#include "headrace/decode/pixel_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::decode::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR  // no vectors at all: what x86-64 without SSSE3 gets

using decode::map_to_planes_plain;
using decode::resize_columns_plain;
using decode::resize_rows_plain;
constexpr auto& map_to_planes = map_to_planes_plain;
constexpr auto& resize_columns = resize_columns_plain;
constexpr auto& resize_rows = resize_rows_plain;

#else

namespace hn = hwy::HWY_NAMESPACE;

// How many blocks of 128 bits are worked on at once; each one weighs a pair of taps.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller numbers
constexpr std::size_t kBlocks = 2;
#else
constexpr std::size_t kBlocks = 1;
#endif

const hn::FixedTag<std::uint8_t, 16 * kBlocks> kTapBytes;
const hn::FixedTag<std::int16_t, 8 * kBlocks> kTapWords;
const hn::FixedTag<std::int32_t, 4 * kBlocks> kTapInts;
const hn::FixedTag<std::uint8_t, 16> kBytes;
const hn::FixedTag<std::int16_t, 8> kWords;
const hn::FixedTag<std::int32_t, 4> kInts;
using Bytes = hn::Vec<decltype(kBytes)>;
using Ints = hn::Vec<decltype(kInts)>;

// From four RGB pixels, in the first block: red of pixels 0 and 1, green, blue, nothing, each as two 16-bit numbers; in
// the second block the same of pixels 2 and 3.
alignas(32) constexpr std::uint8_t kPairs[32] = {0, 128, 3, 128, 1, 128, 4,  128, 2, 128, 5,  128, 128, 128, 128, 128,
                                                 6, 128, 9, 128, 7, 128, 10, 128, 8, 128, 11, 128, 128, 128, 128, 128};
// From four results of R, G, B, nothing: twelve bytes in a row.
alignas(16) constexpr std::uint8_t kCompact[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 128, 128, 128, 128};

template <typename TapInts>
HWY_INLINE Ints add_blocks(TapInts sum) {
  if constexpr (kBlocks == 1) {
    return sum;
  } else {
    return hn::Add(hn::LowerHalf(kInts, sum), hn::UpperHalf(kInts, sum));
  }
}

// R, G, B and nothing of one output pixel, in units of 1 / kColumnWeightOne.
HWY_INLINE Ints weigh_pixel(const std::uint8_t* pixels, const std::int16_t* pairs, std::size_t groups) {
  constexpr std::size_t kPairBytes = 6;  // of two RGB pixels
  const auto to_pairs = hn::Load(kTapBytes, kPairs);
  auto sum = hn::Zero(kTapInts);
  auto sum_high = hn::Zero(kTapInts);
  for (std::size_t pair = 0; pair < groups * 2; pair += kBlocks) {
    const auto bytes = hn::LoadDup128(kTapBytes, pixels + pair * kPairBytes);
    const auto taps = hn::BitCast(kTapWords, hn::TableLookupBytesOr0(bytes, to_pairs));
    sum = hn::ReorderWidenMulAccumulate(kTapInts, taps, hn::LoadU(kTapWords, pairs + pair * 8), sum, sum_high);
  }
  const Ints total = add_blocks(hn::RearrangeToOddPlusEven(sum, sum_high));
  return hn::ShiftRight<14>(hn::Add(total, hn::Set(kInts, kColumnWeightOne / 2)));
}

// Four output pixels as 12 bytes and four of anything.
HWY_INLINE Bytes pack_pixels(Ints a, Ints b, Ints c, Ints d) {
  const hn::Half<decltype(kWords)> half_words;
  const hn::Half<decltype(kBytes)> half_bytes;
  const auto low = hn::Combine(kWords, hn::DemoteTo(half_words, b), hn::DemoteTo(half_words, a));
  const auto high = hn::Combine(kWords, hn::DemoteTo(half_words, d), hn::DemoteTo(half_words, c));
  const Bytes bytes = hn::Combine(kBytes, hn::DemoteTo(half_bytes, high), hn::DemoteTo(half_bytes, low));
  return hn::TableLookupBytesOr0(bytes, hn::Load(kBytes, kCompact));
}

template <std::size_t kGroups>  // 0: any number
void resize_columns_groups(const ColumnPass& pass, const std::uint8_t* in, std::uint8_t* out) {
  const std::size_t groups = kGroups > 0 ? kGroups : pass.groups;
  const std::size_t count = pass.offsets.size();
  const auto weigh = [&](std::size_t i)
                         HWY_ATTR { return weigh_pixel(in + pass.offsets[i], pass.pairs + i * groups * 16, groups); };
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4, out += 12) {
    hn::StoreU(pack_pixels(weigh(i), weigh(i + 1), weigh(i + 2), weigh(i + 3)), kBytes, out);
  }
  for (; i < count; ++i, out += 3) {
    const Ints pixel = weigh(i);
    hn::StoreU(pack_pixels(pixel, pixel, pixel, pixel), kBytes, out);
  }
}

void resize_columns(const ColumnPass& pass, const std::uint8_t* in, std::uint8_t* out) {
  if (pass.groups == 1) return resize_columns_groups<1>(pass, in, out);
  if (pass.groups == 2) return resize_columns_groups<2>(pass, in, out);
  resize_columns_groups<0>(pass, in, out);
}

const hn::ScalableTag<std::int16_t> kRowWords;
const hn::Rebind<std::uint8_t, decltype(kRowWords)> kRowBytes;

// One vector of output bytes.
template <int kFraction>  // bits
HWY_INLINE auto weigh_rows(const RowPass& pass, const std::uint8_t* in) {
  auto sum = hn::Set(kRowWords, 1 << (kFraction - 1));
  for (const std::int16_t weight : pass.weights) {
    const auto pixels = hn::ShiftLeft<7>(hn::PromoteTo(kRowWords, hn::LoadU(kRowBytes, in)));
    sum = hn::SaturatedAdd(sum, hn::MulFixedPoint15(pixels, hn::Set(kRowWords, weight)));
    in += pass.stride;
  }
  return hn::DemoteTo(kRowBytes, hn::ShiftRight<kFraction>(sum));
}

template <int kFraction>
void resize_rows_by(const RowPass& pass, const std::uint8_t* in, std::size_t count, std::uint8_t* out) {
  const std::size_t lanes = hn::Lanes(kRowWords);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(weigh_rows<kFraction>(pass, in + i), kRowBytes, out + i);
  if (i < count) resize_rows_plain(pass, in + i, count - i, out + i);
}

void resize_rows(const RowPass& pass, const std::uint8_t* in, std::size_t count, std::uint8_t* out) {
  if (pass.one == kWideRowWeightOne) return resize_rows_by<6>(pass, in, count, out);
  resize_rows_by<7>(pass, in, count, out);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

// A table of 256 16-bit entries in registers. Highway 1.0 has no look-up of 16-bit lanes, hence the intrinsic.
const hn::FixedTag<std::uint16_t, 32> kEntries;
using Entries = hn::Vec<decltype(kEntries)>;

class EntryTable {
 public:
  HWY_INLINE explicit EntryTable(const std::uint16_t* entries) {
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i] = hn::LoadU(kEntries, entries + i * 32);
  }
  HWY_INLINE Entries look_up(Entries index) const {
    const auto upper_half = hn::TestBit(index, hn::Set(kEntries, 128));
    const auto odd_quarter = hn::TestBit(index, hn::Set(kEntries, 64));
    const Entries lower = hn::IfThenElse(odd_quarter, look_up_quarter<1>(index), look_up_quarter<0>(index));
    const Entries upper = hn::IfThenElse(odd_quarter, look_up_quarter<3>(index), look_up_quarter<2>(index));
    return hn::IfThenElse(upper_half, upper, lower);
  }

 private:
  template <std::size_t kQuarter>  // by the low six bits of each index
  HWY_INLINE Entries look_up_quarter(Entries index) const {
    return Entries{_mm512_permutex2var_epi16(parts_[2 * kQuarter].raw, index.raw, parts_[2 * kQuarter + 1].raw)};
  }

  std::array<Entries, 8> parts_;
};

constexpr std::size_t kPixelsAtOnce = 64;  // a vector of bytes for each channel
const hn::FixedTag<std::uint8_t, kPixelsAtOnce> kChannelBytes;

HWY_INLINE void map_channel(const EntryTable& table, hn::Vec<decltype(kChannelBytes)> pixels, std::uint16_t* out) {
  hn::StoreU(table.look_up(hn::PromoteTo(kEntries, hn::LowerHalf(pixels))), kEntries, out);
  const hn::Half<decltype(kChannelBytes)> half;
  hn::StoreU(table.look_up(hn::PromoteTo(kEntries, hn::UpperHalf(half, pixels))), kEntries, out + kPixelsAtOnce / 2);
}

void map_to_planes(const std::uint8_t* rgb, std::size_t count, const std::uint16_t* tables,
                   const std::array<std::uint16_t*, 3>& planes) {
  const EntryTable red_table(tables);
  const EntryTable green_table(tables + 256);
  const EntryTable blue_table(tables + 512);
  std::size_t i = 0;
  for (; i + kPixelsAtOnce <= count; i += kPixelsAtOnce) {
    hn::Vec<decltype(kChannelBytes)> red;
    hn::Vec<decltype(kChannelBytes)> green;
    hn::Vec<decltype(kChannelBytes)> blue;
    hn::LoadInterleaved3(kChannelBytes, rgb + i * 3, red, green, blue);
    map_channel(red_table, red, planes[0] + i);
    map_channel(green_table, green, planes[1] + i);
    map_channel(blue_table, blue, planes[2] + i);
  }
  map_to_planes_plain(rgb + i * 3, count - i, tables, {planes[0] + i, planes[1] + i, planes[2] + i});
}

#else  // fewer lanes would need more look-ups than the plain code

using decode::map_to_planes_plain;
constexpr auto& map_to_planes = map_to_planes_plain;  // NOLINT(readability-identifier-naming): a function

#endif

#endif  // HWY_SCALAR

}  // namespace
}  // namespace headrace::decode::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace headrace::decode {
namespace {

HWY_EXPORT(map_to_planes);
HWY_EXPORT(resize_columns);
HWY_EXPORT(resize_rows);

std::uint8_t clamp_to_byte(int value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}

}  // namespace

void resize_columns(const ColumnPass& pass, const std::uint8_t* in, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resize_columns)(pass, in, out);
}

void resize_rows(const RowPass& pass, const std::uint8_t* in, std::size_t count, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resize_rows)(pass, in, count, out);
}

void map_to_planes(const std::uint8_t* rgb, std::size_t count, const std::uint16_t* tables,
                   const std::array<std::uint16_t*, 3>& planes) {
  HWY_DYNAMIC_DISPATCH(map_to_planes)(rgb, count, tables, planes);
}

void map_to_planes_plain(const std::uint8_t* rgb, std::size_t count, const std::uint16_t* tables,
                         const std::array<std::uint16_t*, 3>& planes) {
  for (std::size_t i = 0; i < count; ++i) {
    planes[0][i] = tables[rgb[i * 3]];
    planes[1][i] = tables[256 + rgb[i * 3 + 1]];
    planes[2][i] = tables[512 + rgb[i * 3 + 2]];
  }
}

void resize_columns_plain(const ColumnPass& pass, const std::uint8_t* in, std::uint8_t* out) {
  for (std::size_t i = 0; i < pass.offsets.size(); ++i) {
    const std::int16_t* pairs = pass.pairs + i * pass.groups * 16;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      int sum = kColumnWeightOne / 2;
      for (std::size_t tap = 0; tap < pass.groups * 4; ++tap) {
        const int weight = pairs[tap / 2 * 8 + tap % 2];
        if (weight != 0) sum += weight * in[pass.offsets[i] + tap * 3 + channel];
      }
      *out++ = clamp_to_byte(sum / kColumnWeightOne);
    }
  }
}

void resize_rows_plain(const RowPass& pass, const std::uint8_t* in, std::size_t count, std::uint8_t* out) {
  const int fraction = pass.one == kWideRowWeightOne ? 6 : 7;
  for (std::size_t i = 0; i < count; ++i) {
    int sum = 1 << (fraction - 1);
    for (std::size_t k = 0; k < pass.weights.size(); ++k) {
      const int product = (in[k * pass.stride + i] << 7) * pass.weights[k];
      sum = std::clamp(sum + ((product + (1 << 14)) >> 15), INT16_MIN, INT16_MAX);
    }
    out[i] = clamp_to_byte(sum >> fraction);
  }
}

}  // namespace headrace::decode
#endif  // HWY_ONCE
