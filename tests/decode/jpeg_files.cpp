// SPDX-License-Identifier: Apache-2.0
#include "decode/jpeg_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <jpeglib.h>

namespace headrace::test {
namespace {

int channels_of(JpegColor color) {
  if (color == JpegColor::kGrey) return 1;
  return color == JpegColor::kCmyk || color == JpegColor::kYcck ? 4 : 3;
}

J_COLOR_SPACE input_space(JpegColor color) {
  if (color == JpegColor::kGrey) return JCS_GRAYSCALE;
  return channels_of(color) == 4 ? JCS_CMYK : JCS_RGB;
}

J_COLOR_SPACE file_space(JpegColor color) {
  switch (color) {
    case JpegColor::kGrey:
      return JCS_GRAYSCALE;
    case JpegColor::kYcc:
      return JCS_YCbCr;
    case JpegColor::kRgb:
      return JCS_RGB;
    case JpegColor::kCmyk:
      return JCS_CMYK;
    case JpegColor::kYcck:
      return JCS_YCCK;
  }
  std::abort();
}

void configure(jpeg_compress_struct& info, const JpegSpec& spec) {
  info.image_width = spec.size.width;
  info.image_height = spec.size.height;
  info.input_components = channels_of(spec.color);
  info.in_color_space = input_space(spec.color);
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, file_space(spec.color));
  jpeg_set_quality(&info, spec.quality, TRUE);
  const Sampling first = {spec.horizontal_sampling, spec.vertical_sampling};
  const std::array<Sampling, 4> sampling = {first, spec.chroma[0], spec.chroma[1], first};
  for (int c = 0; c < info.num_components; ++c) {
    info.comp_info[c].h_samp_factor = sampling[static_cast<std::size_t>(c)].horizontal;
    info.comp_info[c].v_samp_factor = sampling[static_cast<std::size_t>(c)].vertical;
  }
  info.arith_code = spec.arithmetic ? TRUE : FALSE;
  info.optimize_coding = spec.optimised ? TRUE : FALSE;
  info.restart_interval = spec.restart_interval;
  if (spec.progressive) jpeg_simple_progression(&info);
}

}  // namespace

std::vector<std::uint8_t> make_pixels(decode::Size size, int channels, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(size.pixels()) * static_cast<unsigned>(channels));
  std::size_t at = 0;
  for (unsigned y = 0; y < size.height; ++y) {
    for (unsigned x = 0; x < size.width; ++x) {
      const bool edge = (x / 23 + y / 17) % 2 == 0;
      for (int c = 0; c < channels; ++c) {
        const double wave = 60 * std::sin(0.11 * x * (c + 1) + 0.07 * y) + (edge ? 90 : 150);
        pixels[at++] = static_cast<std::uint8_t>(wave + static_cast<double>(random() % 32));
      }
    }
  }
  return pixels;
}

Bytes make_jpeg(const JpegSpec& spec) {
  const int channels = channels_of(spec.color);
  std::vector<std::uint8_t> pixels = make_pixels(spec.size, channels, spec.seed);
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long memory_bytes = 0;
  jpeg_mem_dest(&info, &memory, &memory_bytes);
  configure(info, spec);
  jpeg_start_compress(&info, TRUE);
  const std::size_t row_bytes = std::size_t{spec.size.width} * static_cast<unsigned>(channels);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  const auto* begin = reinterpret_cast<const std::byte*>(memory);
  Bytes file(begin, begin + memory_bytes);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

Bytes with_segment(const Bytes& jpeg, unsigned char marker, const std::string& content) {
  const std::size_t length = content.size() + 2;
  std::string segment = {'\xff', static_cast<char>(marker), static_cast<char>(length >> 8), static_cast<char>(length)};
  segment += content;
  Bytes file(jpeg.begin(), jpeg.begin() + 2);
  for (char byte : segment) file.push_back(static_cast<std::byte>(byte));
  file.insert(file.end(), jpeg.begin() + 2, jpeg.end());
  return file;
}

std::string exif_tiff(unsigned orientation, std::endian order) {
  const auto number = [order](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
    if (order == std::endian::big) std::ranges::reverse(text);
    return text;
  };
  const std::string tiff = (order == std::endian::big ? "MM" : "II") + number(42, 2) + number(8, 4);  // directory at 8
  // One entry: orientation, as one SHORT, which fills the first half of its four bytes; no further directory.
  const std::string entry = number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + number(0, 2);
  return tiff + number(1, 2) + entry + number(0, 4);
}

Bytes with_orientation(const Bytes& jpeg, unsigned orientation, std::endian order) {
  constexpr unsigned char kApp1 = 0xe1;
  return with_segment(jpeg, kApp1, std::string("Exif\0\0", 6) + exif_tiff(orientation, order));
}

std::vector<JpegSpec> jpeg_kinds() {
  std::vector<JpegSpec> kinds = {{},
                                 {.horizontal_sampling = 2, .vertical_sampling = 2},
                                 {.horizontal_sampling = 2},
                                 {.vertical_sampling = 2},
                                 {.horizontal_sampling = 4},
                                 {.horizontal_sampling = 4, .vertical_sampling = 2},
                                 {.horizontal_sampling = 4, .vertical_sampling = 2, .progressive = true},
                                 {.horizontal_sampling = 2, .vertical_sampling = 4},
                                 {.vertical_sampling = 4},
                                 {.horizontal_sampling = 3},
                                 {.vertical_sampling = 3},
                                 {.horizontal_sampling = 4, .chroma = {{{2, 1}, {1, 1}}}},
                                 {.horizontal_sampling = 2, .vertical_sampling = 2, .chroma = {{{2, 1}, {1, 2}}}},
                                 {.chroma = {{{2, 2}, {2, 2}}}},
                                 {.chroma = {{{4, 1}, {2, 2}}}},
                                 {.horizontal_sampling = 2, .vertical_sampling = 2, .progressive = true},
                                 {.horizontal_sampling = 2, .vertical_sampling = 2, .arithmetic = true},
                                 {.progressive = true, .arithmetic = true},
                                 {.horizontal_sampling = 2, .vertical_sampling = 2, .restart_interval = 3},
                                 {.optimised = true, .restart_interval = 1},
                                 {.horizontal_sampling = 2, .optimised = true, .quality = 100},
                                 {.color = JpegColor::kGrey},
                                 {.color = JpegColor::kGrey, .horizontal_sampling = 2, .vertical_sampling = 2},
                                 {.color = JpegColor::kGrey, .progressive = true},
                                 {.color = JpegColor::kRgb},
                                 {.color = JpegColor::kCmyk},
                                 {.color = JpegColor::kYcck},
                                 {.color = JpegColor::kYcck, .horizontal_sampling = 2, .vertical_sampling = 2}};
  return kinds;
}

std::string describe(const JpegSpec& spec) {
  static const char* const kColors[] = {"grey", "ycc", "rgb", "cmyk", "ycck"};
  std::string text = kColors[static_cast<int>(spec.color)];
  const auto add = [&](int h, int v) { text += " " + std::to_string(h) + "x" + std::to_string(v); };
  add(spec.horizontal_sampling, spec.vertical_sampling);
  for (const Sampling& chroma : spec.chroma) add(chroma.horizontal, chroma.vertical);
  if (spec.progressive) text += " progressive";
  if (spec.arithmetic) text += " arithmetic";
  if (spec.optimised) text += " optimised";
  if (spec.restart_interval > 0) text += " restarts";
  return text;
}

ReferenceImage reference_decode(std::span<const std::byte> jpeg, unsigned reduce) {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&info, TRUE);
  const bool cmyk = info.num_components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = reduce;
  jpeg_start_decompress(&info);
  ReferenceImage image{{info.output_width, info.output_height}, cmyk ? 4 : 3, {}};
  const std::size_t row_bytes = std::size_t{info.output_width} * static_cast<unsigned>(image.channels);
  image.pixels.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.pixels.data() + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return image;
}

}  // namespace headrace::test
