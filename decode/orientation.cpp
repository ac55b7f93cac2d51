// SPDX-License-Identifier: Apache-2.0
// Each orientation is a transposition (or none) followed by mirroring the upright image's columns or rows (or not).
// That one table serves boxes and pixels alike.
#include "headrace/decode/orientation.h"

#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

namespace headrace::decode {
namespace {

struct Turn {
  bool transpose;
  bool mirror_x;  // upright column x shows stored column (or, transposed, row) last - x
  bool mirror_y;
};

Turn turn_of(Orientation orientation) {
  switch (orientation) {
    case Orientation::kUpright:
      return {false, false, false};
    case Orientation::kMirrored:
      return {false, true, false};
    case Orientation::kUpsideDown:
      return {false, true, true};
    case Orientation::kFlipped:
      return {false, false, true};
    case Orientation::kTransposed:
      return {true, false, false};
    case Orientation::kTurnClockwise:
      return {true, true, false};
    case Orientation::kTransversed:
      return {true, true, true};
    case Orientation::kTurnAnticlockwise:
      return {true, false, true};
  }
  return {false, false, false};
}

using Bytes = std::span<const std::byte>;

// An integer of `width` bytes; nullopt behind the end.
std::optional<std::uint32_t> read(Bytes bytes, std::endian order, std::size_t offset, std::size_t width) {
  if (offset > bytes.size() || bytes.size() - offset < width) return std::nullopt;
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t at = offset + (order == std::endian::big ? i : width - 1 - i);
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[at]);
  }
  return value;
}

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// TIFF 6.0: header of 8 bytes with the offset of a directory; a count; entries of 12 bytes: tag, type, count, value.
Orientation orientation_of_tiff(Bytes tiff) {
  constexpr std::uint32_t kOrientationTag = 0x0112;
  const std::endian order = begins_with(tiff, "M") ? std::endian::big : std::endian::little;
  if (read(tiff, order, 2, 2) != 42U) return Orientation::kUpright;
  const std::size_t directory = read(tiff, order, 4, 4).value_or(UINT32_MAX);
  const std::uint32_t count = read(tiff, order, directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{i} * 12;
    if (read(tiff, order, entry, 2) != kOrientationTag) continue;
    const std::uint32_t value = read(tiff, order, entry + 8, 2).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation::kUpright;
  }
  return Orientation::kUpright;
}

constexpr std::string_view kExifMark("Exif\0\0", 6);

// The TIFF structure behind the mark. Writers put the mark into PNG and WebP files, too, which need none.
Bytes without_mark(Bytes exif) {
  return begins_with(exif, kExifMark) ? exif.subspan(kExifMark.size()) : exif;
}

// Segments: 0xff, marker, length with these two bytes (2, big endian), content.
Bytes exif_of_jpeg(Bytes jpeg) {
  constexpr std::uint32_t kStartOfScan = 0xda;
  constexpr std::uint32_t kApp1 = 0xe1;
  std::size_t at = 2;  // behind the mark of the start
  while (read(jpeg, std::endian::big, at, 1) == 0xffU) {
    const std::uint32_t marker = read(jpeg, std::endian::big, at + 1, 1).value_or(kStartOfScan);
    const std::size_t length = read(jpeg, std::endian::big, at + 2, 2).value_or(0);
    if (marker == kStartOfScan || length < 2 || jpeg.size() - at < 2 + length) break;
    const Bytes content = jpeg.subspan(at + 4, length - 2);
    if (marker == kApp1 && begins_with(content, kExifMark)) return content;
    at += 2 + length;
  }
  return {};
}

// Chunks: length of the content (4, big endian), name, content, checksum (4).
Bytes exif_of_png(Bytes png) {
  constexpr std::size_t kSignatureBytes = 8;
  std::size_t at = kSignatureBytes;
  while (const std::optional<std::uint32_t> length = read(png, std::endian::big, at, 4)) {
    const Bytes chunk = png.subspan(at + 4);
    if (chunk.size() < std::size_t{*length} + 8) break;
    if (begins_with(chunk, "eXIf")) return chunk.subspan(4, *length);
    at += 12 + std::size_t{*length};
  }
  return {};
}

// Chunks of RIFF: name, length of the content (4, little endian), content, filled up to an even length.
Bytes exif_of_webp(Bytes webp) {
  constexpr std::size_t kHeaderBytes = 12;  // "RIFF", length of the file, "WEBP"
  std::size_t at = kHeaderBytes;
  while (const std::optional<std::uint32_t> length = read(webp, std::endian::little, at + 4, 4)) {
    const Bytes chunk = webp.subspan(at);
    if (chunk.size() < std::size_t{*length} + 8) break;
    if (begins_with(chunk, "EXIF")) return chunk.subspan(8, *length);
    at += 8 + std::size_t{*length} + *length % 2;
  }
  return {};
}

}  // namespace

Orientation exif_orientation(std::span<const std::byte> bytes, ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return orientation_of_tiff(without_mark(exif_of_jpeg(bytes)));
    case ImageFormat::kPng:
      return orientation_of_tiff(without_mark(exif_of_png(bytes)));
    case ImageFormat::kWebp:
      return orientation_of_tiff(without_mark(exif_of_webp(bytes)));
    case ImageFormat::kUnknown:
    case ImageFormat::kBmp:
    case ImageFormat::kNumpy:
    case ImageFormat::kCifar:
      break;
  }
  return Orientation::kUpright;
}

Size upright_size(Size stored, Orientation orientation) {
  return turn_of(orientation).transpose ? Size{stored.height, stored.width} : stored;
}

Box stored_box(const Box& box, Size upright, Orientation orientation) {
  const Turn turn = turn_of(orientation);
  Box stored = box;
  if (turn.mirror_x) stored.x = upright.width - box.x - box.width;
  if (turn.mirror_y) stored.y = upright.height - box.y - box.height;
  if (turn.transpose) stored = {stored.y, stored.x, stored.height, stored.width};
  return stored;
}

void turn_upright(const Image& stored, Orientation orientation, Image& out) {
  const Turn turn = turn_of(orientation);
  const Size size = upright_size(stored.size(), orientation);
  out.reset(size);
  for (std::uint32_t y = 0; y < size.height; ++y) {
    const std::uint32_t from_y = turn.mirror_y ? size.height - 1 - y : y;
    std::uint8_t* to = out.row(y);
    for (std::uint32_t x = 0; x < size.width; ++x, to += Image::kChannels) {
      const std::uint32_t from_x = turn.mirror_x ? size.width - 1 - x : x;
      const std::uint8_t* from = turn.transpose ? stored.row(from_x) + std::size_t{from_y} * Image::kChannels
                                                : stored.row(from_y) + std::size_t{from_x} * Image::kChannels;
      std::memcpy(to, from, Image::kChannels);
    }
  }
}

}  // namespace headrace::decode
