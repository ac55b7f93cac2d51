// SPDX-License-Identifier: Apache-2.0
// Any image file to RGB; the format is found from the content (image_format.h).
//
//   ImageDecoder decoder({});
//   Status done = decoder.decode(bytes, image);
//
//   auto size = decoder.open(bytes);                        // only a part:
//   decoder.decode_region({10, 10, 200, 200}, 1, image);
//
// Thread-safety: none; one decoder per thread, reused.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "headrace/decode/decode_options.h"
#include "headrace/decode/image.h"
#include "headrace/decode/image_format.h"
#include "headrace/decode/jpeg_decoder.h"
#include "headrace/decode/orientation.h"
#include "headrace/decode/row_sink.h"
#include "headrace/io/result.h"

namespace headrace::decode {

class ImageDecoder {
 public:
  explicit ImageDecoder(const DecodeOptions& options) : options_(options), jpeg_(options) {}

  // The size, turned upright if DecodeOptions::apply_orientation asks for it. `bytes` stay the caller's, alive until
  // the decoding ends.
  // Errors: kCorrupt, kUnsupported (no known format, or a variant of one), kInvalidArgument (limits).
  [[nodiscard]] Result<Size> open(std::span<const std::byte> bytes);

  // Decodes what open() was given, once: the part `box` of the image reduced by `reduce`. Its size is
  // reduced(size, reduce), with the size that open() returned. `out` may be a part of longer lines. Throws
  // std::bad_alloc.
  [[nodiscard]] Status decode_region(const Box& box, std::uint32_t reduce, Image& out);
  // The same, row by row.
  [[nodiscard]] Status decode_region(const Box& box, std::uint32_t reduce, RowSink& rows);
  // What this file can be reduced by while it is decoded: 1, 2, 4 and 8 for a JPEG, 1 for others.
  [[nodiscard]] std::uint32_t reduce_max() const { return format_ == ImageFormat::kJpeg ? 8 : 1; }

  [[nodiscard]] Status decode(std::span<const std::byte> bytes, Image& out);

  // Cuts the part `box` out of what open() was given, instead of decoding it, for a decoder elsewhere (jpeg_decoder.h).
  // Errors: kUnsupported (no JPEG, to be turned upright, or of colours that decoders disagree on; and as
  // JpegDecoder::splice()), kCorrupt.
  [[nodiscard]] Result<SplicedJpeg> splice(const Box& box);

  // From now on a decoding that is under way while `stopped` is true, or becomes so, ends with kCancelled. It is looked
  // at once a line or so. `stopped` outlives the decoder.
  void end_when(const std::atomic<bool>& stopped) {
    stopped_ = &stopped;
    jpeg_.end_when(stopped);
  }

  // Lets parts of JPEGs be decoded with the help of `indexes` (jpeg_decoder.h).
  void use_indexes(CropIndexes& indexes) { jpeg_.use_indexes(indexes); }

  // Makes the index of a JPEG, and keeps it where use_indexes() says (jpeg_decoder.h). Other formats: kUnsuited.
  // Errors: as open().
  [[nodiscard]] Result<CropWay> make_index(std::span<const std::byte> bytes);

  // What was repaired or salvaged in the last decoding; empty for a sound file.
  [[nodiscard]] const std::string& damage() const { return jpeg_.damage(); }

 private:
  static constexpr std::atomic<bool> kNever = false;  // nobody ends the decoding

  Result<Size> open_jpeg();
  Result<Size> open_whole();
  Status decode_stored(const Box& box, std::uint32_t reduce, Image& out);

  const DecodeOptions options_;
  JpegDecoder jpeg_;
  ImageFormat format_ = ImageFormat::kUnknown;
  std::span<const std::byte> bytes_;
  const std::atomic<bool>* stopped_ = &kNever;
  Orientation orientation_ = Orientation::kUpright;
  bool usual_colours_ = false;
  Size size_;     // as open() returned it
  Image stored_;  // before it is turned upright
  Image whole_;   // before it is cut
  Image region_;  // before it is handed on row by row, unless it comes so
};

}  // namespace headrace::decode
