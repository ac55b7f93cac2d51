// SPDX-License-Identifier: Apache-2.0
// JPEG to RGB through libjpeg-turbo's libjpeg interface, equal to it bit for bit.
//
//   JpegDecoder decoder({});
//   auto header = decoder.open(bytes);            // header->size, from the first few hundred bytes
//   Status done = decoder.decode(whole(header->size), 1, image);
//
// Baseline, progressive and arithmetic coding; grey, YCbCr, RGB, CMYK and YCCK (converted as PIL does). ICC profiles
// are ignored. 12 and 16 bits per channel and lossless files are refused (kUnsupported).
//
// Huffman codes of files with one scan are decoded by headrace's own walker, which can begin in the middle of the file
// where CropIndexes say so. Whatever it does not take for sound is decoded by libjpeg alone. Of a progressive file the
// same picture is decoded as a baseline file, where a folder of indexes keeps one.
//
// Thread-safety: none; one decoder per thread, reused. Ownership: the bytes are the caller's, alive until decode()
// ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/decode_options.h"
#include "headrace/decode/image.h"
#include "headrace/decode/row_sink.h"
#include "headrace/io/result.h"

namespace headrace::decode {

using io::Result;
using io::Status;

// A part of a JPEG, as a file of its own.
struct SplicedJpeg {
  std::vector<std::byte> bytes;
  Box box;  // where in its image the part is that was asked for; around it there is what completes its MCUs
};

class JpegDecoder {
 public:
  struct Header {
    Size size;  // as stored, before any orientation
    int components = 0;
    bool progressive = false;
    bool usual_colours = false;  // grey or YCbCr, which every decoder takes for the same
  };

  explicit JpegDecoder(const DecodeOptions& options);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header. Errors: kCorrupt, kUnsupported, kInvalidArgument (larger than pixels_max).
  [[nodiscard]] Result<Header> open(std::span<const std::byte> bytes);

  // Decodes what open() was given, once. `reduce` is 1, 2, 4 or 8: the inverse DCT yields an image of
  // ceil(size / reduce), and `box` is a rectangle of that image. The pixels equal those of the whole image at the same
  // `reduce`, at every edge of the box. The rows of `out` are parts of longer lines unless the box is as wide as the
  // image.
  // Errors: kCorrupt, kUnsupported, kInvalidArgument (too many scans), kCancelled (end_when). Throws std::bad_alloc.
  [[nodiscard]] Status decode(const Box& box, std::uint32_t reduce, Image& out);
  // The same, row by row.
  [[nodiscard]] Status decode(const Box& box, std::uint32_t reduce, RowSink& rows);

  // From now on a decode() that is under way while `stopped` is true, or becomes so, ends with kCancelled. It is looked
  // at once a line, and between the scans. `stopped` outlives the decoder.
  void end_when(const std::atomic<bool>& stopped);

  // From now on parts of images are decoded with the help of `indexes`, which outlive the decoder.
  void use_indexes(CropIndexes& indexes);

  // Makes the index of all of what open() was given, instead of decode(), and keeps it where use_indexes() says. No
  // pixels; about half of the time of a decode. kIndexed: it was there, whole. kMade, and why not otherwise.
  [[nodiscard]] CropWay make_index();

  // Cuts a small valid JPEG out of what open() was given, instead of decode(), for a decoder elsewhere: on a GPU, for
  // instance. Its pixels within `box` are those of the whole image. Indexes help, and are made, as for a crop. Colour
  // space and tables come along; EXIF, ICC profiles and comments do not.
  // Errors: kUnsupported (progressive, arithmetic coding, several scans, unless use_indexes() keeps these as baseline
  // files), kCorrupt (the file is not sound as far as it was read).
  [[nodiscard]] Result<SplicedJpeg> splice(const Box& box);

  // What was repaired or salvaged in the last decode(); empty for a sound file, and where decode() failed.
  [[nodiscard]] const std::string& damage() const;
  void forget_damage();

 private:
  friend IndexSupport index_support();
  enum class Scans : std::uint8_t { kPlain, kWalked };
  JpegDecoder(const DecodeOptions& options, Scans scans);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] inline Size reduced(Size size, std::uint32_t reduce) {
  return {(size.width + reduce - 1) / reduce, (size.height + reduce - 1) / reduce};
}

}  // namespace headrace::decode
