// SPDX-License-Identifier: Apache-2.0
// Puts a HuffmanWalker in the place of libjpeg's Huffman decoder, for one image: libjpeg goes on to do all the rest, so
// that pixels are the same by construction.
//
//   jpeg_start_decompress(&info);                 // and jpeg_crop_scanline, if only a part is wanted
//   if (walk.fits(info)) walk.begin(info);        // before the first line is read
//   walk.index().unpack(packed, content);         // optional
//   ... jpeg_read_scanlines ...                   // ends in error_exit where the walker refuses: walk.refused()
//   jpeg_abort_decompress(&info);                 // not jpeg_finish_decompress: the source did not move
//
// libjpeg asks for every MCU, one after the other, those outside of the crop, too. What the index covers is jumped over
// unless it is wanted. All else is decoded, as libjpeg would: damage is found where libjpeg finds it.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>

#include "headrace/decode/image.h"
#include "headrace/decode/internal/huffman_walker.h"
#include "headrace/decode/internal/scan_index.h"
#include "headrace/decode/internal/scan_writer.h"

struct jpeg_decompress_struct;

namespace headrace::decode {

class ScanWalk {
 public:
  // One scan of Huffman codes, 8 bits, not progressive, ended by an end-of-image marker.
  [[nodiscard]] bool fits(const jpeg_decompress_struct& info);
  // After fits(). The object outlives the decoding.
  void begin(jpeg_decompress_struct& info);
  // Lets libjpeg decode after all. Only before the first line.
  void give_up(jpeg_decompress_struct& info);

  // After begin(), instead of reading lines: walks to the end of the scan, so that the index covers all of it. False:
  // the codes are not those of a sound file.
  [[nodiscard]] bool walk_all();

  // The same for a part of the image: writes its MCUs (a box of MCUs) as a scan of their own. kRefused: the codes are
  // not those of a sound file. kNoCode: they have none for what is to be written.
  enum class Spliced : std::uint8_t { kDone, kRefused, kNoCode };
  [[nodiscard]] Spliced splice(const Box& mcus, ScanWriter& writer);
  // What codes differences have, with those that a part may need beside them. False: there is no room for these.
  [[nodiscard]] bool dc_codes_for_splice(std::array<HuffmanCodes, kHuffmanTables>& codes) const;
  void set_codes_of(ScanWriter& writer, const std::array<HuffmanCodes, kHuffmanTables>& dc_codes) const;

  // Whether the structures of the libjpeg that this was compiled with are known here.
  [[nodiscard]] static bool knows_library();

  [[nodiscard]] ScanIndex& index() { return index_; }
  // The codes are not those of a sound file. Somebody else has to decode it.
  [[nodiscard]] bool refused() const { return refused_; }
  // For the next image.
  void forget() { refused_ = false; }

 private:
  struct Hook;
  friend struct Hook;
  using DecodeMcu = int (*)(jpeg_decompress_struct* info, CoefficientBlock** blocks);

  void set_layout(const jpeg_decompress_struct& info);
  void set_codes(const jpeg_decompress_struct& info);
  [[nodiscard]] bool next(CoefficientBlock* const* blocks);
  [[nodiscard]] bool go_to(std::uint32_t mcu);
  [[nodiscard]] bool arrive();
  [[nodiscard]] Spliced splice_run(std::uint32_t end, ScanWriter& writer);

  HuffmanWalker walker_;
  ScanIndex index_;
  ScanLayout layout_;
  DecodeMcu decode_mcu_ = nullptr;  // libjpeg's own
  bool refused_ = false;
  std::uint32_t next_point_ = 0;  // the MCU where the walker comes to a point of the index
  std::uint32_t mcu_ = 0;         // that libjpeg asks for next
  std::uint32_t column_ = 0;      // where it is
  std::uint32_t columns_ = 0;
  std::uint32_t first_column_ = 0;  // that are wanted
  std::uint32_t last_column_ = 0;
};

}  // namespace headrace::decode
