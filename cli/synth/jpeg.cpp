// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/synth/jpeg.h"

// jpeglib.h needs FILE and size_t declared before it.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <jpeglib.h>

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using io::Result;

// libjpeg reports an error through a function that must not return. Ours jumps back to the call of setjmp().
struct ErrorHandler {
  jpeg_error_mgr base;  // the first member: libjpeg's pointer to it points to this struct, too
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

void jump_out(j_common_ptr info) {
  auto* handler = reinterpret_cast<ErrorHandler*>(info->err);
  info->err->format_message(info, handler->message.data());
  std::longjmp(handler->jump, 1);
}

void stay_quiet(j_common_ptr /*info*/) {}

jpeg_error_mgr* prepare(ErrorHandler& handler) {
  jpeg_std_error(&handler.base);
  handler.base.error_exit = jump_out;
  handler.base.output_message = stay_quiet;
  return &handler.base;
}

// Tables K.1 and K.2 of the JPEG standard (ITU-T T.81), row by row.
using QuantTable = std::array<unsigned, 64>;
constexpr QuantTable kLuminance = {16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
                                   14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
                                   18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
                                   49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99};
constexpr QuantTable kChrominance = {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,
                                     24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
                                     99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
                                     99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99};

QuantTable scaled(const QuantTable& table, double coarseness) {
  QuantTable result = {};
  std::transform(table.begin(), table.end(), result.begin(), [&](unsigned step) {
    return static_cast<unsigned>(std::clamp(std::lround(step * coarseness), 1L, 255L));
  });
  return result;
}

// Plain data, so that a jump out of libjpeg skips no destructor. The caller calls close() in both cases.
struct Encoder {
  jpeg_compress_struct info = {};
  ErrorHandler error = {};
  unsigned char* output = nullptr;
  unsigned long output_bytes = 0;

  void close() {
    jpeg_destroy_compress(&info);
    std::free(output);
  }
};

void configure(jpeg_compress_struct& info, const Picture& picture, const ImagePlan& plan, double coarseness) {
  info.image_width = picture.width;
  info.image_height = picture.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (plan.grayscale) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  jpeg_add_quant_table(&info, 0, scaled(kLuminance, coarseness).data(), 100, TRUE);
  jpeg_add_quant_table(&info, 1, scaled(kChrominance, coarseness).data(), 100, TRUE);
  const bool halve_columns = plan.subsampling != Subsampling::k444 && !plan.grayscale;
  info.comp_info[0].h_samp_factor = halve_columns ? 2 : 1;
  info.comp_info[0].v_samp_factor = halve_columns && plan.subsampling == Subsampling::k420 ? 2 : 1;
  if (plan.restart_markers) info.restart_in_rows = 1;
  if (plan.progressive) jpeg_simple_progression(&info);
}

bool compress(Encoder& encoder, const Picture& picture, const ImagePlan& plan, double coarseness) {
  if (setjmp(encoder.error.jump) != 0) return false;
  jpeg_compress_struct& info = encoder.info;
  info.err = prepare(encoder.error);
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &encoder.output, &encoder.output_bytes);
  configure(info, picture, plan, coarseness);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    const std::size_t offset = std::size_t{info.next_scanline} * picture.width * 3;
    JSAMPROW row = const_cast<JSAMPROW>(&picture.rgb[offset]);  // libjpeg only reads it
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

struct Decoder {
  jpeg_decompress_struct info = {};
  ErrorHandler error = {};
};

// When it returns false the picture may be half filled.
bool decompress(Decoder& decoder, std::FILE* file, Picture& picture) {
  if (setjmp(decoder.error.jump) != 0) return false;
  jpeg_decompress_struct& info = decoder.info;
  info.err = prepare(decoder.error);
  jpeg_create_decompress(&info);
  jpeg_stdio_src(&info, file);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  picture.width = info.output_width;
  picture.height = info.output_height;
  picture.rgb.resize(std::size_t{picture.width} * picture.height * 3);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = &picture.rgb[std::size_t{info.output_scanline} * picture.width * 3];
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// The range of tables worth trying: from all ones to a quality that nobody publishes.
constexpr double kCoarsenessMin = 0.01;
constexpr double kCoarsenessMax = 5;

}  // namespace

Result<std::vector<std::byte>> encode_jpeg(const Picture& picture, const ImagePlan& plan, double coarseness) {
  Encoder encoder;
  std::vector<std::byte> bytes;
  const bool good = compress(encoder, picture, plan, coarseness);
  if (good) {
    const auto* output = reinterpret_cast<const std::byte*>(encoder.output);
    bytes.assign(output, output + encoder.output_bytes);
  }
  encoder.close();
  if (!good) return make_error(ErrorCode::kSystem, std::string("encode JPEG: ") + encoder.error.message.data());
  return bytes;
}

Result<std::vector<std::byte>> encode_jpeg_to_size(const Picture& picture, const ImagePlan& plan) {
  constexpr int kAttemptsMax = 5;  // nearly always the second or third is close enough
  constexpr double kCloseEnough = 0.03;
  // The size falls about with this power of the coarseness. A wrong guess costs an attempt, not the result.
  constexpr double kExponent = -0.6;
  std::vector<std::byte> best;
  double best_off = INFINITY;
  double coarseness = 0.15;
  for (int attempt = 0; attempt < kAttemptsMax && best_off > kCloseEnough; ++attempt) {
    HEADRACE_TRY(bytes, encode_jpeg(picture, plan, coarseness));
    const double ratio = static_cast<double>(plan.target_bytes) / static_cast<double>(bytes.size());
    const double off = std::abs(std::log(ratio));
    if (off < best_off) {
      best_off = off;
      best = std::move(bytes);
    }
    const double next = std::clamp(coarseness * std::pow(ratio, 1 / kExponent), kCoarsenessMin, kCoarsenessMax);
    if (next == coarseness) break;
    coarseness = next;
  }
  return best;
}

Result<Picture> load_jpeg(const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"), std::fclose);
  if (stream == nullptr) return io::system_error(errno, "open " + file.string());
  Decoder decoder;
  Picture picture;
  const bool good = decompress(decoder, stream.get(), picture);
  jpeg_destroy_decompress(&decoder.info);
  if (!good) return make_error(ErrorCode::kCorrupt, file.string() + ": " + decoder.error.message.data());
  return picture;
}

}  // namespace headrace::cli
