// SPDX-License-Identifier: Apache-2.0
// Marker segments as ITU-T T.81, B.2 has them; JFIF's and Adobe's as libjpeg reads them, because it finds the colour
// space by them.
#include "headrace/decode/internal/jpeg_splice.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "headrace/decode/internal/natural_order.h"

// After <cstdio>, which it uses without including it.
#include <cstdio>

#include <jpeglib.h>

namespace headrace::decode {
namespace {

constexpr std::uint32_t kBlockSide = 8;

// MCUs along one axis, and the pixels that they show.
struct Span {
  std::uint32_t first;
  std::uint32_t end;
  std::uint32_t pixels;
};

// "Fancy" upsampling looks one pixel to each side. It is replaced by a simple one where a component has less than 3
// columns, so there are at least 3 of each, unless the image itself has less.
Span span_for(std::uint32_t begin, std::uint32_t length, std::uint32_t count, std::uint32_t sampling,
              std::uint32_t side) {
  const std::uint32_t margin = sampling > 1 ? 1 : 0;
  const std::uint32_t end = std::min(begin + length + margin, count);
  std::uint32_t first = (begin - std::min(begin, margin)) / side;
  const std::uint32_t last = (end - 1) / side;
  const auto pixels = [&] { return std::min((last + 1 - first) * side, count - first * side); };
  if (first > 0 && pixels() < 2 * sampling + 1) --first;
  return {first, last + 1, pixels()};
}

class SegmentWriter {
 public:
  explicit SegmentWriter(std::vector<std::byte>& out) : out_(out) {}
  void byte(unsigned value) { out_.push_back(static_cast<std::byte>(value)); }
  void word(unsigned value) {
    byte(value >> 8 & 255);
    byte(value & 255);
  }
  void bytes(std::initializer_list<unsigned> values) {
    for (const unsigned value : values) byte(value);
  }
  void begin(unsigned marker) {
    bytes({0xff, marker});
    length_at_ = out_.size();
    word(0);
  }
  void end() {
    const std::size_t length = out_.size() - length_at_;
    out_[length_at_] = static_cast<std::byte>(length >> 8);
    out_[length_at_ + 1] = static_cast<std::byte>(length & 255);
  }

 private:
  std::vector<std::byte>& out_;
  std::size_t length_at_ = 0;
};

void write_colour_space(const jpeg_decompress_struct& info, SegmentWriter& out) {
  if (info.saw_JFIF_marker) {
    out.begin(0xe0);
    out.bytes({'J', 'F', 'I', 'F', 0, info.JFIF_major_version, info.JFIF_minor_version, info.density_unit});
    out.word(info.X_density);
    out.word(info.Y_density);
    out.word(0);  // no thumbnail
    out.end();
  }
  if (info.saw_Adobe_marker) {
    out.begin(0xee);
    out.bytes({'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, info.Adobe_transform});
    out.end();
  }
}

bool is_wide(const jpeg_decompress_struct& info, std::size_t table) {
  const UINT16* values = info.quant_tbl_ptrs[table]->quantval;
  return std::any_of(values, values + DCTSIZE2, [](unsigned value) { return value > 255; });
}

// Two tables of each kind, and quantisation in 8 bits (T.81, table B.2 and following).
bool is_baseline(const jpeg_decompress_struct& info) {
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    if (component.dc_tbl_no > 1 || component.ac_tbl_no > 1) return false;
    if (is_wide(info, static_cast<std::size_t>(component.quant_tbl_no))) return false;
  }
  return true;
}

void write_quantisation(const jpeg_decompress_struct& info, SegmentWriter& out) {
  std::array<bool, NUM_QUANT_TBLS> written = {};
  for (int i = 0; i < info.num_components; ++i) {
    const auto number = static_cast<std::size_t>(info.comp_info[i].quant_tbl_no);
    if (std::exchange(written[number], true)) continue;
    const UINT16* values = info.quant_tbl_ptrs[number]->quantval;
    const bool wide = is_wide(info, number);
    out.begin(0xdb);
    out.byte((wide ? 16U : 0U) | static_cast<unsigned>(number));
    for (unsigned k = 0; k < DCTSIZE2; ++k) {
      if (wide) {
        out.word(values[kNaturalOrder[k]]);
      } else {
        out.byte(values[kNaturalOrder[k]]);
      }
    }
    out.end();
  }
}

void write_frame(const jpeg_decompress_struct& info, Size size, SegmentWriter& out) {
  out.begin(is_baseline(info) ? 0xc0 : 0xc1);
  out.byte(8);
  out.word(size.height);
  out.word(size.width);
  out.byte(static_cast<unsigned>(info.num_components));
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    out.byte(static_cast<unsigned>(component.component_id));
    out.byte(static_cast<unsigned>(component.h_samp_factor << 4 | component.v_samp_factor));
    out.byte(static_cast<unsigned>(component.quant_tbl_no));
  }
  out.end();
}

template <typename Counts, typename Symbols>
void write_codes(unsigned head, const Counts& counts, const Symbols& symbols, SegmentWriter& out) {
  out.begin(0xc4);
  out.byte(head);
  unsigned count = 0;
  for (std::size_t length = 1; length <= 16; ++length) {
    out.byte(counts[length]);
    count += counts[length];
  }
  for (std::size_t i = 0; i < std::min(count, 256U); ++i) out.byte(symbols[i]);
  out.end();
}

void write_scan(const jpeg_decompress_struct& info, SegmentWriter& out) {
  out.begin(0xda);
  out.byte(static_cast<unsigned>(info.comps_in_scan));
  for (int i = 0; i < info.comps_in_scan; ++i) {
    const jpeg_component_info& component = *info.cur_comp_info[i];
    out.byte(static_cast<unsigned>(component.component_id));
    out.byte(static_cast<unsigned>(component.dc_tbl_no << 4 | component.ac_tbl_no));
  }
  out.bytes({0, 63, 0});  // all coefficients at once
  out.end();
}

}  // namespace

SpliceShape splice_shape(const jpeg_decompress_struct& info, const Box& box) {
  const auto columns = static_cast<std::uint32_t>(info.max_h_samp_factor);
  const auto rows = static_cast<std::uint32_t>(info.max_v_samp_factor);
  const bool single = info.comps_in_scan == 1;  // its MCU is one block
  const std::uint32_t width = kBlockSide * (single ? 1 : columns);
  const std::uint32_t height = kBlockSide * (single ? 1 : rows);
  const Span x = span_for(box.x, box.width, info.image_width, columns, width);
  const Span y = span_for(box.y, box.height, info.image_height, rows, height);
  return {.mcus = {x.first, y.first, x.end - x.first, y.end - y.first},
          .size = {x.pixels, y.pixels},
          .box = {box.x - x.first * width, box.y - y.first * height, box.width, box.height}};
}

void write_splice_header(const jpeg_decompress_struct& info, Size size,
                         const std::array<HuffmanCodes, kHuffmanTables>& dc_codes, std::vector<std::byte>& out) {
  SegmentWriter writer(out);
  writer.bytes({0xff, 0xd8});
  write_colour_space(info, writer);
  write_quantisation(info, writer);
  write_frame(info, size, writer);
  std::array<bool, kHuffmanTables> dc_written = {};
  std::array<bool, kHuffmanTables> ac_written = {};
  for (int i = 0; i < info.comps_in_scan; ++i) {
    const auto dc = static_cast<std::size_t>(info.cur_comp_info[i]->dc_tbl_no);
    const auto ac = static_cast<std::size_t>(info.cur_comp_info[i]->ac_tbl_no);
    if (!std::exchange(dc_written[dc], true)) {
      write_codes(static_cast<unsigned>(dc), dc_codes[dc].counts, dc_codes[dc].symbols, writer);
    }
    if (!std::exchange(ac_written[ac], true)) {
      const JHUFF_TBL& table = *info.ac_huff_tbl_ptrs[ac];
      write_codes(16U | static_cast<unsigned>(ac), table.bits, table.huffval, writer);
    }
  }
  write_scan(info, writer);
}

}  // namespace headrace::decode
