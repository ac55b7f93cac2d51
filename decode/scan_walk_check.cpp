// SPDX-License-Identifier: Apache-2.0
// Tries the walk on pictures made by libjpeg itself, because the library that a program meets may be another one than
// that which it was compiled for.
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "headrace/decode/internal/scan_walk.h"
#include "headrace/decode/jpeg_decoder.h"
#include "headrace/io/log.h"

// After <cstdlib>, which it uses without including it.
#include <cstdio>

#include <jpeglib.h>

namespace headrace::decode {
namespace {

constexpr Size kPicture = {83, 61};  // no whole number of blocks

struct Kind {
  int sampling;  // of luminance, both ways
  unsigned restart_interval;
};

struct Encoder {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf back = {};
  std::vector<std::uint8_t> line = std::vector<std::uint8_t>(std::size_t{kPicture.width} * 3);
  unsigned char* memory = nullptr;
  unsigned long memory_bytes = 0;
};

void compress(Encoder& encoder, const Kind& kind) {
  jpeg_compress_struct& info = encoder.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &encoder.memory, &encoder.memory_bytes);
  info.image_width = kPicture.width;
  info.image_height = kPicture.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  info.comp_info[0].h_samp_factor = kind.sampling;
  info.comp_info[0].v_samp_factor = kind.sampling;
  info.restart_interval = kind.restart_interval;
  jpeg_start_compress(&info, TRUE);
  std::uint32_t noise = 1;
  while (info.next_scanline < info.image_height) {
    for (std::uint8_t& sample : encoder.line) {
      noise = noise * 1'664'525 + 1'013'904'223;  // Numerical Recipes' generator: any noise will do
      sample = static_cast<std::uint8_t>(info.next_scanline * 3 + (noise >> 27));
    }
    JSAMPROW row = encoder.line.data();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

// Empty where this library refuses; by itself it would end the process.
std::vector<std::byte> make_picture(const Kind& kind) {
  Encoder encoder;
  encoder.info.err = jpeg_std_error(&encoder.errors);
  encoder.errors.error_exit = [](j_common_ptr info) {
    std::longjmp(static_cast<Encoder*>(info->client_data)->back, 1);
  };
  encoder.info.client_data = &encoder;
  std::vector<std::byte> file;
  if (setjmp(encoder.back) == 0) {
    compress(encoder, kind);
    file.resize(encoder.memory_bytes);
    std::memcpy(file.data(), encoder.memory, encoder.memory_bytes);
  }
  jpeg_destroy_compress(&encoder.info);
  std::free(encoder.memory);
  return file;
}

bool same_pixels(const Image& a, const Image& b) {
  if (a.size() != b.size()) return false;
  for (std::uint32_t y = 0; y < a.size().height; ++y) {
    if (std::memcmp(a.row(y), b.row(y), a.row_bytes()) != 0) return false;
  }
  return true;
}

bool decodes_equally(JpegDecoder& plain, JpegDecoder& walked, const std::vector<std::byte>& file, const Box& box) {
  Image expected;
  Image image;
  return plain.open(file).has_value() && plain.decode(box, 1, expected).has_value() && walked.open(file).has_value() &&
         walked.decode(box, 1, image).has_value() && same_pixels(expected, image);
}

}  // namespace

IndexSupport index_support() {
  static const IndexSupport support = [] {
    if (!ScanWalk::knows_library()) {
      io::log_warning("this libjpeg's inside is not known: crops of JPEGs take longer than they need");
      return IndexSupport::kUnknownLibrary;
    }
    JpegDecoder plain({}, JpegDecoder::Scans::kPlain);
    JpegDecoder walked({}, JpegDecoder::Scans::kWalked);
    CropIndexes indexes(std::size_t{1} << 20);
    walked.use_indexes(indexes);
    bool equal = true;
    std::uint64_t crops = 0;
    for (const Kind& kind : {Kind{1, 0}, Kind{2, 0}, Kind{1, 7}}) {
      const std::vector<std::byte> file = make_picture(kind);
      // The first crop makes an index, the others use it.
      for (const Box& box : {Box{10, 3, 9, 58}, Box{40, 20, 25, 19}, Box{66, 37, 17, 24}, whole(kPicture)}) {
        equal = equal && decodes_equally(plain, walked, file, box);
        if (box != whole(kPicture)) ++crops;
      }
    }
    const CropReport report = indexes.report();
    equal = equal && report.count(CropWay::kMade) + report.count(CropWay::kIndexed) == crops;
    if (!equal) io::log_warning("this libjpeg failed a check: crops of JPEGs take longer than they need");
    return equal ? IndexSupport::kWorks : IndexSupport::kFailedCheck;
  }();
  return support;
}

#ifdef LIBJPEG_TURBO_VERSION
#define HEADRACE_QUOTED(word) #word
#define HEADRACE_QUOTED_VALUE(word) HEADRACE_QUOTED(word)
std::string_view libjpeg_turbo_version() {
  return HEADRACE_QUOTED_VALUE(LIBJPEG_TURBO_VERSION);
}
#else
std::string_view libjpeg_turbo_version() {
  return "";
}
#endif

}  // namespace headrace::decode
