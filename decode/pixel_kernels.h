// SPDX-License-Identifier: Apache-2.0
// The inner loops over pixels, compiled for several instruction sets; the best one is chosen when first called. Each
// has a plain twin that computes the same bits and that tests compare it with.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace::decode {

inline constexpr int kColumnWeightOne = 1 << 14;  // products of pixels and weights are added in 32 bits
// Of rows, products are rounded to 7 fractional bits and added in 16 bits.
inline constexpr int kRowWeightOne = 1 << 15;
// Where a weight may exceed 1, and the others make up for it. Products have 6 fractional bits then.
inline constexpr int kWideRowWeightOne = 1 << 14;

// Resizes one row of RGB pixels. For output pixel i, groups of four input pixels starting at byte offsets[i] are
// weighted: pairs[(i * groups + g) * 16 ...] holds, for taps 4g and 4g+1, then for 4g+2 and 4g+3, the pair of weights
// three times and two zeros. Reads up to 22 bytes from each group's first pixel; writes up to 16 bytes behind the last
// output pixel.
struct ColumnPass {
  std::span<const std::uint32_t> offsets;
  const std::int16_t* pairs = nullptr;
  std::size_t groups = 0;
};
void resize_columns(const ColumnPass& pass, const std::uint8_t* in, std::uint8_t* out);
void resize_columns_plain(const ColumnPass& pass, const std::uint8_t* in, std::uint8_t* out);

// out[i] = sum over k of weights[k] / one * in[k * stride + i], for i < count.
struct RowPass {
  std::span<const std::int16_t> weights;
  std::size_t stride = 0;
  int one = kRowWeightOne;  // or kWideRowWeightOne
};
void resize_rows(const RowPass& pass, const std::uint8_t* in, std::size_t count, std::uint8_t* out);
void resize_rows_plain(const RowPass& pass, const std::uint8_t* in, std::size_t count, std::uint8_t* out);

// planes[c][i] = tables[256 * c + rgb[3 * i + c]], for i < count.
void map_to_planes(const std::uint8_t* rgb, std::size_t count, const std::uint16_t* tables,
                   const std::array<std::uint16_t*, 3>& planes);
void map_to_planes_plain(const std::uint8_t* rgb, std::size_t count, const std::uint16_t* tables,
                         const std::array<std::uint16_t*, 3>& planes);

}  // namespace headrace::decode
