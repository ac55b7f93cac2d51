// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/image_format.h"

#include <cstring>
#include <string>

#include "headrace/decode/decode_options.h"

namespace headrace::decode {
namespace {

constexpr std::size_t kCifar10Bytes = 1 + 3 * 32 * 32;
constexpr std::size_t kCifar100Bytes = 2 + 3 * 32 * 32;

bool has(std::span<const std::byte> bytes, std::size_t offset, std::string_view magic) {
  return bytes.size() >= offset + magic.size() && std::memcmp(&bytes[offset], magic.data(), magic.size()) == 0;
}

}  // namespace

ImageFormat detect_format(std::span<const std::byte> bytes) {
  if (has(bytes, 0, "\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (has(bytes, 0, "\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  if (has(bytes, 0, "RIFF") && has(bytes, 8, "WEBP")) return ImageFormat::kWebp;
  if (has(bytes, 0, "\x93NUMPY")) return ImageFormat::kNumpy;
  if (has(bytes, 0, "BM")) return ImageFormat::kBmp;
  return ImageFormat::kUnknown;
}

bool has_size_of_cifar_record(std::span<const std::byte> bytes) {
  return bytes.size() == kCifar10Bytes || bytes.size() == kCifar100Bytes;
}

std::string_view name_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::kUnknown:
      return "unknown";
    case ImageFormat::kJpeg:
      return "JPEG";
    case ImageFormat::kPng:
      return "PNG";
    case ImageFormat::kBmp:
      return "BMP";
    case ImageFormat::kWebp:
      return "WebP";
    case ImageFormat::kNumpy:
      return "NumPy array";
    case ImageFormat::kCifar:
      return "CIFAR record";
  }
  return "unknown";
}

io::Status check_size(Size size, const DecodeOptions& options) {
  if (size.pixels() == 0) return io::make_error(io::ErrorCode::kCorrupt, "an image without pixels");
  if (size.pixels() <= options.pixels_max) return {};
  return io::make_error(io::ErrorCode::kInvalidArgument, std::to_string(size.width) + " x " +
                                                             std::to_string(size.height) + " is over the limit of " +
                                                             std::to_string(options.pixels_max) + " pixels");
}

}  // namespace headrace::decode
