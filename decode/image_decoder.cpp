// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/image_decoder.h"

#include <cstring>
#include <utility>

#include "headrace/decode/internal/codec.h"

namespace headrace::decode {
namespace {

void cut(const Image& whole_image, const Box& box, Image& out) {
  out.reset(box.size());
  for (std::uint32_t y = 0; y < box.height; ++y) {
    std::memcpy(out.row(y), whole_image.row(box.y + y) + std::size_t{box.x} * Image::kChannels, out.row_bytes());
  }
}

}  // namespace

const Codec* codec_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::kPng:
      return &kPngCodec;
    case ImageFormat::kBmp:
      return &kBmpCodec;
    case ImageFormat::kWebp:
      return &kWebpCodec;
    case ImageFormat::kNumpy:
      return &kNumpyCodec;
    case ImageFormat::kCifar:
      return &kCifarCodec;
    case ImageFormat::kUnknown:
    case ImageFormat::kJpeg:
      break;
  }
  return nullptr;
}

Result<Size> ImageDecoder::open(std::span<const std::byte> bytes) {
  bytes_ = bytes;
  format_ = detect_format(bytes);
  if (format_ == ImageFormat::kUnknown && options_.cifar_records && has_size_of_cifar_record(bytes)) {
    format_ = ImageFormat::kCifar;
  }
  HEADRACE_TRY(stored, format_ == ImageFormat::kJpeg ? open_jpeg() : open_whole());
  orientation_ = options_.apply_orientation ? exif_orientation(bytes, format_) : Orientation::kUpright;
  size_ = upright_size(stored, orientation_);
  return size_;
}

Result<Size> ImageDecoder::open_jpeg() {
  HEADRACE_TRY(header, jpeg_.open(bytes_));
  usual_colours_ = header.usual_colours;
  return header.size;
}

Result<Size> ImageDecoder::open_whole() {
  jpeg_.forget_damage();
  const Codec* codec = codec_of(format_);
  if (codec == nullptr) return io::make_error(io::ErrorCode::kUnsupported, "no image format that is known");
  HEADRACE_TRY(size, codec->read_size(bytes_));
  HEADRACE_TRY_DO(check_size(size, options_));
  return size;
}

Status ImageDecoder::decode_region(const Box& box, std::uint32_t reduce, Image& out) {
  if (orientation_ == Orientation::kUpright) return decode_stored(box, reduce, out);
  HEADRACE_TRY_DO(decode_stored(stored_box(box, reduced(size_, reduce), orientation_), reduce, stored_));
  turn_upright(stored_, orientation_, out);
  return {};
}

Status ImageDecoder::decode_region(const Box& box, std::uint32_t reduce, RowSink& rows) {
  if (format_ == ImageFormat::kJpeg && orientation_ == Orientation::kUpright) return jpeg_.decode(box, reduce, rows);
  HEADRACE_TRY_DO(decode_region(box, reduce, region_));
  rows.begin(box.size(), box.width, 0);
  for (std::uint32_t y = 0; y < box.height; ++y) rows.take(region_.row(y));
  return {};
}

Status ImageDecoder::decode_stored(const Box& box, std::uint32_t reduce, Image& out) {
  if (format_ == ImageFormat::kJpeg) return jpeg_.decode(box, reduce, out);
  const Size size = upright_size(size_, orientation_);  // the way back is the same
  HEADRACE_ASSERT(reduce == 1 && contains(size, box));
  const bool all = box == whole(size);
  Image& target = all ? out : whole_;
  target.reset(size);
  HEADRACE_TRY_DO(codec_of(format_)->decode(bytes_, target, *stopped_));
  if (!all) cut(whole_, box, out);
  return {};
}

Result<CropWay> ImageDecoder::make_index(std::span<const std::byte> bytes) {
  if (Result<Size> size = open(bytes); !size) return io::forward_error(std::move(size));
  return format_ == ImageFormat::kJpeg ? jpeg_.make_index() : CropWay::kUnsuited;
}

Result<SplicedJpeg> ImageDecoder::splice(const Box& box) {
  if (format_ == ImageFormat::kJpeg && usual_colours_ && orientation_ == Orientation::kUpright) {
    return jpeg_.splice(box);
  }
  return io::make_error(io::ErrorCode::kUnsupported, "no JPEG that others decode alike");
}

Status ImageDecoder::decode(std::span<const std::byte> bytes, Image& out) {
  HEADRACE_TRY(size, open(bytes));
  return decode_region(whole(size), 1, out);
}

}  // namespace headrace::decode
