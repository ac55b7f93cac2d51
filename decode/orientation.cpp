// SPDX-License-Identifier: Apache-2.0
// Each orientation is a transposition (or none) followed by mirroring the upright image's columns or rows (or not).
// That one table serves boxes and pixels alike.
#include "headrace/decode/orientation.h"

#include <cstring>
#include <optional>

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

// Reads integers of a TIFF structure in its byte order; nullopt behind its end.
class TiffReader {
 public:
  explicit TiffReader(std::span<const std::byte> bytes)
      : bytes_(bytes), big_endian_(bytes.size() > 1 && bytes[0] == std::byte{'M'}) {}

  [[nodiscard]] std::optional<std::uint32_t> read(std::size_t offset, std::size_t width) const {
    if (offset > bytes_.size() || bytes_.size() - offset < width) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = offset + (big_endian_ ? i : width - 1 - i);
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_;
};

// TIFF 6.0: header of 8 bytes with the offset of a directory; a count; entries of 12 bytes: tag, type, count, value.
Orientation orientation_of_tiff(std::span<const std::byte> tiff) {
  constexpr std::uint32_t kOrientationTag = 0x0112;
  const TiffReader reader(tiff);
  if (reader.read(2, 2) != 42U) return Orientation::kUpright;
  const std::size_t directory = reader.read(4, 4).value_or(UINT32_MAX);
  const std::uint32_t count = reader.read(directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{i} * 12;
    if (reader.read(entry, 2) != kOrientationTag) continue;
    const std::uint32_t value = reader.read(entry + 8, 2).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation::kUpright;
  }
  return Orientation::kUpright;
}

}  // namespace

Orientation exif_orientation(std::span<const std::byte> jpeg) {
  constexpr char kExif[] = {'E', 'x', 'i', 'f', '\0', '\0'};
  const TiffReader markers(jpeg);  // JPEG is big endian, and its first byte 0xff is not 'M': read bytes one by one
  std::size_t at = 2;              // after SOI
  while (markers.read(at, 1) == 0xffU) {
    const std::uint32_t marker = markers.read(at + 1, 1).value_or(0xda);
    const std::size_t length = markers.read(at + 2, 1).value_or(0) << 8 | markers.read(at + 3, 1).value_or(0);
    if (marker == 0xda || length < 2 || jpeg.size() - at < 2 + length) break;  // 0xda: the first scan starts
    const std::span<const std::byte> payload = jpeg.subspan(at + 4, length - 2);
    if (marker == 0xe1 && payload.size() > sizeof kExif && std::memcmp(payload.data(), kExif, sizeof kExif) == 0) {
      return orientation_of_tiff(payload.subspan(sizeof kExif));
    }
    at += 2 + length;
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
