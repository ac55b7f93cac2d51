// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/image_decoder.h"

#include <cstring>

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
  orientation_ = Orientation::kUpright;
  Result<Size> size = format_ == ImageFormat::kJpeg ? open_jpeg() : open_whole();
  if (size) size_ = *size;
  return size;
}

Result<Size> ImageDecoder::open_jpeg() {
  Result<JpegDecoder::Header> header = jpeg_.open(bytes_);
  if (!header) return tl::unexpected(std::move(header.error()));
  if (options_.apply_orientation) orientation_ = exif_orientation(bytes_);
  return upright_size(header->size, orientation_);
}

Result<Size> ImageDecoder::open_whole() {
  jpeg_.forget_damage();
  const Codec* codec = codec_of(format_);
  if (codec == nullptr) return io::make_error(io::ErrorCode::kUnsupported, "no image format that is known");
  Result<Size> size = codec->read_size(bytes_);
  if (!size) return size;
  if (Status status = check_size(*size, options_); !status) return tl::unexpected(std::move(status.error()));
  return size;
}

Status ImageDecoder::decode_region(const Box& box, std::uint32_t reduce, Image& out) {
  return format_ == ImageFormat::kJpeg ? decode_jpeg(box, reduce, out) : decode_whole(box, out);
}

Status ImageDecoder::decode_jpeg(const Box& box, std::uint32_t reduce, Image& out) {
  if (orientation_ == Orientation::kUpright) return jpeg_.decode(box, reduce, out);
  Status status = jpeg_.decode(stored_box(box, reduced(size_, reduce), orientation_), reduce, stored_);
  if (status) turn_upright(stored_, orientation_, out);
  return status;
}

Status ImageDecoder::decode_whole(const Box& box, Image& out) {
  HEADRACE_ASSERT(contains(size_, box));
  const bool all = box == whole(size_);
  Image& target = all ? out : stored_;
  target.reset(size_);
  Status status = codec_of(format_)->decode(bytes_, target);
  if (status && !all) cut(stored_, box, out);
  return status;
}

Status ImageDecoder::decode(std::span<const std::byte> bytes, Image& out) {
  const Result<Size> size = open(bytes);
  if (!size) return tl::unexpected(size.error());
  return decode_region(whole(*size), 1, out);
}

}  // namespace headrace::decode
