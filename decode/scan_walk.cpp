// SPDX-License-Identifier: Apache-2.0
// What is known of libjpeg-turbo's inside here (jpegint.h, which Debian installs; jdcoefct.c, jdapistd.c): decode_mcu
// is called once for each MCU in their order, with blocks of zeros, or with NULL for rows that are skipped as a whole;
// the columns outside of first_iMCU_col to last_iMCU_col are not looked at afterwards.
#include "headrace/decode/internal/scan_walk.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

// After <cstdio>, which they use without including it.
#include <jpeglib.h>
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2001000 && \
    LIBJPEG_TURBO_VERSION_NUMBER < 2002000 && __has_include(<jpegint.h>)
#define HEADRACE_KNOWS_LIBJPEG 1
#include <jpegint.h>
#undef MAX
#undef MIN
#else
#define HEADRACE_KNOWS_LIBJPEG 0
#endif

namespace headrace::decode {

#if HEADRACE_KNOWS_LIBJPEG
namespace {

static_assert(sizeof(JBLOCK) == sizeof(CoefficientBlock) && sizeof(JCOEF) == sizeof(std::int16_t));
static_assert(MAX_COMPS_IN_SCAN == kScanComponentsMax && D_MAX_BLOCKS_IN_MCU == kMcuBlocksMax);
static_assert(NUM_HUFF_TBLS == kHuffmanTables);

constexpr std::size_t kScanBytesMax = std::size_t{1} << 28;  // positions in bits then have 32 bits

#if JPEG_LIB_VERSION >= 70
int block_side(const jpeg_component_info& component) {
  return component.DCT_h_scaled_size;
}
#else
int block_side(const jpeg_component_info& component) {
  return component.DCT_scaled_size;
}
#endif

HuffmanCodes codes_of(const JHUFF_TBL& table) {
  HuffmanCodes codes;
  std::copy(std::begin(table.bits), std::end(table.bits), codes.counts.begin());
  codes.counts[0] = 0;
  std::copy(std::begin(table.huffval), std::end(table.huffval), codes.symbols.begin());
  return codes;
}

// Up to the last end-of-image marker. libjpeg reads ahead, and where the data end without a marker it complains even if
// it needs no more of them. With that marker behind them it cannot come to the end of the bytes.
std::span<const std::uint8_t> data_of(const jpeg_source_mgr& source) {
  const std::uint8_t* data = source.next_input_byte;
  for (std::size_t end = source.bytes_in_buffer; end >= 2; --end) {
    if (data[end - 1] == 0xd9 && data[end - 2] == 0xff) return {data, end - 2};
  }
  return {};
}

}  // namespace

struct ScanWalk::Hook {
  static boolean decode_mcu(j_decompress_ptr info, JBLOCKROW* blocks) {
    ScanWalk& walk = *static_cast<ScanWalk*>(info->client_data);
    if (!walk.next(blocks)) {
      walk.refused_ = true;
      info->err->error_exit(reinterpret_cast<j_common_ptr>(info));
    }
    return TRUE;
  }
};

bool ScanWalk::fits(const jpeg_decompress_struct& info) {
  if (info.progressive_mode || info.arith_code || info.inputctl->has_multiple_scans || info.data_precision != 8) {
    return false;
  }
  layout_ = {.data = data_of(*info.src)};
  return !layout_.data.empty() && layout_.data.size() <= kScanBytesMax;
}

void ScanWalk::begin(jpeg_decompress_struct& info) {
  set_layout(info);
  set_codes(info);
  walker_.begin(layout_);
  index_.begin(layout_);
  next_point_ = index_.step();
  mcu_ = 0;
  column_ = 0;
  columns_ = info.MCUs_per_row;
  first_column_ = info.master->first_iMCU_col;
  last_column_ = info.master->last_iMCU_col;
  info.client_data = this;
  decode_mcu_ = info.entropy->decode_mcu;
  info.entropy->decode_mcu = Hook::decode_mcu;
}

void ScanWalk::give_up(jpeg_decompress_struct& info) {
  info.entropy->decode_mcu = decode_mcu_;
}

void ScanWalk::set_layout(const jpeg_decompress_struct& info) {
  layout_.mcu_count = info.MCUs_per_row * info.MCU_rows_in_scan;
  layout_.restart_interval = info.restart_interval;
  layout_.components = static_cast<std::size_t>(info.comps_in_scan);
  layout_.blocks = static_cast<std::size_t>(info.blocks_in_MCU);
  for (std::size_t i = 0; i < layout_.blocks; ++i) {
    layout_.component_of[i] = static_cast<std::uint8_t>(info.MCU_membership[i]);
  }
  for (std::size_t c = 0; c < layout_.components; ++c) {
    const jpeg_component_info& component = *info.cur_comp_info[c];
    layout_.dc_table[c] = static_cast<std::uint8_t>(component.dc_tbl_no);
    layout_.ac_table[c] = static_cast<std::uint8_t>(component.ac_tbl_no);
    layout_.only_dc[c] = block_side(component) == 1;
  }
}

// jpeg_start_decompress() has checked that the tables are there and that their codes are possible.
void ScanWalk::set_codes(const jpeg_decompress_struct& info) {
  for (std::size_t c = 0; c < layout_.components; ++c) {
    walker_.set_dc_codes(layout_.dc_table[c], codes_of(*info.dc_huff_tbl_ptrs[layout_.dc_table[c]]));
    walker_.set_ac_codes(layout_.ac_table[c], codes_of(*info.ac_huff_tbl_ptrs[layout_.ac_table[c]]));
  }
}

bool ScanWalk::knows_library() {
  return true;
}

#else  // never begun, as index_support() says no

bool ScanWalk::knows_library() {
  return false;
}

bool ScanWalk::fits(const jpeg_decompress_struct&) {
  return false;
}
void ScanWalk::begin(jpeg_decompress_struct&) {}
void ScanWalk::give_up(jpeg_decompress_struct&) {}

#endif

bool ScanWalk::walk_all() {
  return index_.covered() == layout_.mcu_count || go_to(layout_.mcu_count);
}

bool ScanWalk::dc_codes_for_splice(std::array<HuffmanCodes, kHuffmanTables>& codes) const {
  for (std::size_t c = 0; c < layout_.components; ++c) {
    const std::size_t table = layout_.dc_table[c];
    codes[table] = walker_.dc_codes(table);
    if (!complete_dc_codes(codes[table])) return false;
  }
  return true;
}

void ScanWalk::set_codes_of(ScanWriter& writer, const std::array<HuffmanCodes, kHuffmanTables>& dc_codes) const {
  for (std::size_t c = 0; c < layout_.components; ++c) {
    writer.set_dc_codes(layout_.dc_table[c], dc_codes[layout_.dc_table[c]]);
    writer.set_ac_codes(layout_.ac_table[c], walker_.ac_codes(layout_.ac_table[c]));
  }
}

ScanWalk::Spliced ScanWalk::splice(const Box& mcus, ScanWriter& writer) {
  for (std::uint32_t row = mcus.y; row < mcus.y + mcus.height; ++row) {
    const std::uint32_t begin = row * columns_ + mcus.x;
    if (walker_.mcu() != begin && !go_to(begin)) return Spliced::kRefused;
    while (walker_.mcu() < begin + mcus.width) {
      const Spliced done = splice_run(begin + mcus.width, writer);
      if (done != Spliced::kDone) return done;
    }
  }
  return Spliced::kDone;
}

// Up to `end`, or to where the differences begin anew. The first MCU is written anew, because another one came before
// it.
ScanWalk::Spliced ScanWalk::splice_run(std::uint32_t end, ScanWriter& writer) {
  const std::uint32_t interval = layout_.restart_interval;
  if (interval > 0) end = std::min(end, (walker_.mcu() / interval + 1) * interval);
  CoefficientBlock blocks[kMcuBlocksMax] = {};
  std::array<CoefficientBlock*, kMcuBlocksMax> pointers = {};
  for (std::size_t i = 0; i < pointers.size(); ++i) pointers[i] = &blocks[i];
  if (!walker_.decode(pointers.data()) || !arrive()) return Spliced::kRefused;
  if (!writer.write_mcu(layout_, blocks)) return Spliced::kNoCode;
  const ScanPoint from = walker_.point();
  while (walker_.mcu() < end) {
    if (!walker_.skip() || !arrive()) return Spliced::kRefused;
  }
  writer.copy_bits(layout_.data, from, walker_.point());
  return Spliced::kDone;
}

bool ScanWalk::next(CoefficientBlock* const* blocks) {
  const bool wanted = blocks != nullptr && first_column_ <= column_ && column_ <= last_column_;
  const std::uint32_t mcu = mcu_++;
  if (++column_ == columns_) column_ = 0;
  if (mcu < index_.covered() && !wanted) return true;
  if (walker_.mcu() != mcu && !go_to(mcu)) return false;
  return (wanted ? walker_.decode(blocks) : walker_.skip()) && arrive();
}

// From the nearest point before it, or from where the walker is, if that is nearer.
bool ScanWalk::go_to(std::uint32_t mcu) {
  const std::uint32_t number = std::min(mcu, index_.covered()) / index_.step();
  const std::uint32_t point_mcu = number * index_.step();
  const bool walker_is_nearer = point_mcu <= walker_.mcu() && walker_.mcu() <= mcu;
  if (!walker_is_nearer) {
    if (!walker_.seek(point_mcu, index_.points()[number])) return false;
    next_point_ = point_mcu + index_.step();
  }
  while (walker_.mcu() < mcu) {
    if (!walker_.skip() || !arrive()) return false;
  }
  return true;
}

// Notes how far the scan is known to be sound, and the points on the way. A point that is known already has to be the
// same: otherwise the index is not that of these bytes.
bool ScanWalk::arrive() {
  const std::uint32_t mcu = walker_.mcu();
  index_.cover(std::max(index_.covered(), mcu));
  if (mcu != next_point_) return true;
  next_point_ += index_.step();
  if (index_.wants(mcu)) {
    index_.add(walker_.point());
    return true;
  }
  return walker_.point() == index_.points()[mcu / index_.step()];
}

}  // namespace headrace::decode
