// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/image_decoder.h"

namespace headrace::decode {

Result<Size> ImageDecoder::open(std::span<const std::byte> bytes) {
  Result<JpegDecoder::Header> header = jpeg_.open(bytes);
  if (!header) return tl::unexpected(std::move(header.error()));
  orientation_ = options_.apply_orientation ? exif_orientation(bytes) : Orientation::kUpright;
  size_ = upright_size(header->size, orientation_);
  return size_;
}

Status ImageDecoder::decode_region(const Box& box, std::uint32_t reduce, Image& out) {
  if (orientation_ == Orientation::kUpright) return jpeg_.decode(box, reduce, out);
  Status status = jpeg_.decode(stored_box(box, reduced(size_, reduce), orientation_), reduce, stored_);
  if (status) turn_upright(stored_, orientation_, out);
  return status;
}

Status ImageDecoder::decode(std::span<const std::byte> bytes, Image& out) {
  const Result<Size> size = open(bytes);
  if (!size) return tl::unexpected(size.error());
  return decode_region(whole(*size), 1, out);
}

}  // namespace headrace::decode
