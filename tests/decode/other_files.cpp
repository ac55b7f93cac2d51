// SPDX-License-Identifier: Apache-2.0
#include "decode/other_files.h"

#include <cstdlib>

#include <spng.h>
#include <webp/encode.h>

namespace headrace::test {
namespace {

Bytes bytes_of(const void* data, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + size};
}

void put32(std::string& text, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
}

Bytes encode_png(const void* pixels, std::size_t bytes, std::uint8_t bit_depth, std::string exif = "",
                 bool interlaced = false) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header = {};
  header.width = kPictureSize.width;
  header.height = kPictureSize.height;
  header.bit_depth = bit_depth;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  header.interlace_method = interlaced ? SPNG_INTERLACE_ADAM7 : SPNG_INTERLACE_NONE;
  spng_set_ihdr(context, &header);
  spng_exif chunk = {.length = exif.size(), .data = exif.data()};
  if (!exif.empty() && spng_set_exif(context, &chunk) != 0) std::abort();
  if (spng_encode_image(context, pixels, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) != 0) std::abort();
  std::size_t size = 0;
  int error = 0;
  void* data = spng_get_png_buffer(context, &size, &error);
  Bytes file = bytes_of(data, size);
  std::free(data);
  spng_ctx_free(context);
  return file;
}

}  // namespace

Bytes bytes_of(const std::string& text) {
  return bytes_of(text.data(), text.size());
}

Bytes make_png(const std::vector<std::uint8_t>& rgb, const std::string& exif) {
  return encode_png(rgb.data(), rgb.size(), 8, exif);
}

Bytes make_png_of_16_bits(const std::vector<std::uint8_t>& rgb) {
  std::vector<std::uint16_t> pixels;
  for (const std::uint8_t value : rgb) pixels.push_back(static_cast<std::uint16_t>(value << 8 | (255 - value)));
  return encode_png(pixels.data(), pixels.size() * sizeof pixels[0], 16);
}

Bytes make_interlaced_png(const std::vector<std::uint8_t>& rgb) {
  return encode_png(rgb.data(), rgb.size(), 8, "", true);
}

Bytes make_webp(const std::vector<std::uint8_t>& rgb, decode::Size size) {
  std::uint8_t* data = nullptr;
  const std::size_t bytes =
      WebPEncodeLosslessRGB(rgb.data(), int(size.width), int(size.height), int(size.width * 3), &data);
  Bytes file = bytes_of(data, bytes);
  WebPFree(data);
  return file;
}

Bytes with_exif_chunk(const Bytes& webp, const std::string& exif) {
  constexpr std::size_t kHeaderBytes = 12;
  constexpr char kHasExif = 8;
  const auto chunk = [](const std::string& name, const std::string& content) {
    std::string text = name;
    put32(text, static_cast<std::uint32_t>(content.size()));
    return text + content + std::string(content.size() % 2, '\0');
  };
  const auto side = [](std::uint32_t pixels) {  // less one, in 24 bits
    std::string text;
    put32(text, pixels - 1);
    return text.substr(0, 3);
  };
  const std::string features =
      std::string(1, kHasExif) + std::string(3, '\0') + side(kPictureSize.width) + side(kPictureSize.height);
  const std::string pixels(reinterpret_cast<const char*>(&webp[kHeaderBytes]), webp.size() - kHeaderBytes);
  return bytes_of(chunk("RIFF", "WEBP" + chunk("VP8X", features) + pixels + chunk("EXIF", exif)));
}

Bytes make_bmp(std::int32_t height, std::uint32_t bits, const std::string& palette, const std::string& rows,
               std::uint32_t compression) {
  std::string file = "BM";
  const auto pixels_at = static_cast<std::uint32_t>(54 + palette.size());
  for (std::uint32_t field :
       {pixels_at, 0U, pixels_at, 40U, kPictureSize.width, static_cast<std::uint32_t>(height), 1U | bits << 16,
        compression, 0U, 0U, 0U, static_cast<std::uint32_t>(palette.size() / 4), 0U}) {
    put32(file, field);
  }
  return bytes_of(file + palette + rows);
}

std::string bgr_rows(const std::vector<std::uint8_t>& rgb, bool top_down, std::size_t pixel_bytes) {
  std::string rows;
  for (std::size_t i = 0; i < kPictureSize.height; ++i) {
    const std::size_t y = top_down ? i : kPictureSize.height - 1 - i;
    for (std::size_t x = 0; x < kPictureSize.width; ++x) {
      for (std::size_t c = 0; c < pixel_bytes; ++c) {
        rows.push_back(c < 3 ? static_cast<char>(rgb[(y * kPictureSize.width + x) * 3 + 2 - c]) : '\x55');
      }
    }
    while (rows.size() % 4 != 0) rows.push_back('\0');
  }
  return rows;
}

Bytes make_npy(const std::string& shape, const std::vector<std::uint8_t>& data, const std::string& type) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header.push_back('\n');
  std::string file = "\x93NUMPY";
  file += std::string("\x01\x00\x76\x00", 4) + header;
  file.append(reinterpret_cast<const char*>(data.data()), data.size());
  return bytes_of(file);
}

}  // namespace headrace::test
