// SPDX-License-Identifier: Apache-2.0
// Windows bitmaps without compression: 1, 4 and 8 bits with a palette, 24 and 32 bits; either row order.
//
//   0  "BM", file size, reserved, offset of the pixels (4 bytes at 10)
//   14 size of the header that starts here (40 or more), width, height (negative: top row first), planes, bits per
//   pixel
//      (2 bytes at 28), compression (4 at 30), ... colours in the palette (4 at 46), ..., masks (at 54)
#include <cstdlib>

#include "headrace/decode/internal/codec.h"

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kHeaderEnd = 54;

struct Header {
  Size size;
  bool top_down = false;
  std::uint32_t bits = 0;
  std::size_t pixels_at = 0;
  std::size_t palette_at = 0;
  std::size_t palette_count = 0;
  [[nodiscard]] std::size_t row_bytes() const { return (std::size_t{size.width} * bits + 31) / 32 * 4; }
};

std::uint32_t read32(Bytes bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

bool plain_pixels(Bytes bytes, std::uint32_t bits, std::uint32_t compression) {
  constexpr std::uint32_t kPlain = 0;
  constexpr std::uint32_t kMasks = 3;
  if (compression == kPlain) return bits == 1 || bits == 4 || bits == 8 || bits == 24 || bits == 32;
  return compression == kMasks && bits == 32 && bytes.size() >= kHeaderEnd + 12 && read32(bytes, 54) == 0xff0000 &&
         read32(bytes, 58) == 0xff00 && read32(bytes, 62) == 0xff;
}

io::Result<Header> read_header(Bytes bytes) {
  if (bytes.size() < kHeaderEnd) return make_error(ErrorCode::kCorrupt, "BMP: ends in its header");
  const std::uint32_t header_bytes = read32(bytes, 14);
  if (header_bytes < 40) return make_error(ErrorCode::kUnsupported, "BMP: a header of before Windows 3");
  Header header;
  const auto height = static_cast<std::int32_t>(read32(bytes, 22));
  if (height == INT32_MIN) return make_error(ErrorCode::kCorrupt, "BMP: senseless size");
  header.size = {read32(bytes, 18), static_cast<std::uint32_t>(std::abs(height))};
  header.top_down = height < 0;
  header.bits = read32(bytes, 28) & 0xffff;
  if (!plain_pixels(bytes, header.bits, read32(bytes, 30))) {
    return make_error(ErrorCode::kUnsupported, "BMP: compressed, or an unusual pixel format");
  }
  header.pixels_at = read32(bytes, 10);
  header.palette_at = std::size_t{14} + header_bytes;
  if (header.bits <= 8) {
    const std::size_t all = std::size_t{1} << header.bits;
    const std::size_t named = read32(bytes, 46);
    header.palette_count = named == 0 || named > all ? all : named;
  }
  if (header.size.width > INT32_MAX) return make_error(ErrorCode::kCorrupt, "BMP: senseless size");
  return header;
}

io::Result<Size> read_size(Bytes bytes) {
  HEADRACE_TRY(header, read_header(bytes));
  return header.size;
}

void copy_reversed(Bytes from, std::uint8_t* rgb) {  // stored as blue, green, red
  for (std::size_t c = 0; c < 3; ++c) rgb[c] = std::to_integer<std::uint8_t>(from[2 - c]);
}

// A pixel that the palette does not have is black.
void read_row(const Header& header, Bytes bytes, Bytes row, std::uint8_t* out) {
  for (std::size_t x = 0; x < header.size.width; ++x, out += 3) {
    if (header.bits >= 24) {
      copy_reversed(row.subspan(x * header.bits / 8, 3), out);
      continue;
    }
    const std::size_t bit = x * header.bits;
    const unsigned shift = 8 - header.bits - static_cast<unsigned>(bit % 8);
    const std::size_t color = (std::to_integer<unsigned>(row[bit / 8]) >> shift) & ((1U << header.bits) - 1);
    if (color < header.palette_count) {
      copy_reversed(bytes.subspan(header.palette_at + color * 4, 3), out);
    } else {
      out[0] = out[1] = out[2] = 0;
    }
  }
}

io::Status decode(Bytes bytes, Image& out, const std::atomic<bool>& /*stopped*/) {
  HEADRACE_TRY(header, read_header(bytes));
  const std::size_t all_rows = header.row_bytes() * header.size.height;
  const std::size_t palette_end = header.palette_at + header.palette_count * 4;
  if (header.pixels_at > bytes.size() || bytes.size() - header.pixels_at < all_rows || palette_end > bytes.size()) {
    return make_error(ErrorCode::kCorrupt, "BMP: ends early");
  }
  for (std::uint32_t y = 0; y < header.size.height; ++y) {
    const std::size_t stored = header.top_down ? y : header.size.height - 1 - y;
    read_row(header, bytes, bytes.subspan(header.pixels_at + stored * header.row_bytes(), header.row_bytes()),
             out.row(y));
  }
  return {};
}

}  // namespace

const Codec kBmpCodec = {read_size, decode};

}  // namespace headrace::decode
