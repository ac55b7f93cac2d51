// SPDX-License-Identifier: Apache-2.0
// libjpeg reports errors by a call that must not return, so every stretch of libjpeg calls runs inside guarded(), which
// sets the jump target. No object with a destructor may live in such a stretch: longjmp would skip it.
#include "headrace/decode/jpeg_decoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "headrace/decode/crop_index_folder.h"
#include "headrace/decode/internal/index_visit.h"
#include "headrace/decode/internal/jpeg_baseline.h"
#include "headrace/decode/internal/jpeg_splice.h"
#include "headrace/decode/internal/scan_walk.h"

// After <cstdio>, which they use without including it.
#include <jerror.h>
#include <jpeglib.h>

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;

// The libjpeg error callbacks of one image, and what they found out.
struct ErrorManager : jpeg_error_mgr {
  std::jmp_buf jump;
  Damage damage = Damage::kRepair;
  int fatal_code = 0;
  std::array<char, JMSG_LENGTH_MAX> fatal_text = {};
  std::array<char, JMSG_LENGTH_MAX> warning_text = {};  // the first one
};

ErrorManager& manager_of(j_common_ptr info) {
  return *static_cast<ErrorManager*>(info->err);
}

void on_error(j_common_ptr info) {
  ErrorManager& manager = manager_of(info);
  manager.fatal_code = manager.msg_code;
  manager.format_message(info, manager.fatal_text.data());
  std::longjmp(manager.jump, 1);
}

bool harmless(int code) {
  return code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM || code == JWRN_NOT_SEQUENTIAL;
}

bool fatal(int code, Damage damage) {
  if (damage == Damage::kReject) return true;
  return code == JWRN_JPEG_EOF && damage != Damage::kSalvage;
}

void on_message(j_common_ptr info, int level) {
  ErrorManager& manager = manager_of(info);
  if (level >= 0 || harmless(manager.msg_code)) return;
  if (fatal(manager.msg_code, manager.damage)) on_error(info);
  if (manager.num_warnings++ == 0) manager.format_message(info, manager.warning_text.data());
}

// Beside libjpeg's own codes, which are positive.
constexpr int kTooManyScans = -1;
constexpr int kStopped = -2;

// What libjpeg calls again and again while it decodes: once a line, or while it reads the scans of a progressive file.
struct Watch : jpeg_progress_mgr {
  int scans_max = 0;
  std::uint64_t scanned_pixels_max = 0;
  const std::atomic<bool>* stopped = nullptr;
};

[[noreturn]] void end_with(j_common_ptr info, int code, const char* reason) {
  ErrorManager& manager = manager_of(info);
  manager.fatal_code = code;
  std::snprintf(manager.fatal_text.data(), manager.fatal_text.size(), "%s", reason);
  std::longjmp(manager.jump, 1);
}

void check_progress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  const Watch& watch = *static_cast<const Watch*>(info->progress);
  if (watch.stopped != nullptr && watch.stopped->load(std::memory_order_relaxed)) end_with(info, kStopped, "stopped");
  const int scan = decompress->input_scan_number;
  if (scan <= 1) return;
  const std::uint64_t pixels = std::uint64_t{decompress->image_width} * decompress->image_height;
  if (scan > watch.scans_max || static_cast<std::uint64_t>(scan) * pixels > watch.scanned_pixels_max) {
    end_with(info, kTooManyScans, "more scans than the limits allow for an image of this size");
  }
}

ErrorCode code_of(int jpeg_code) {
  switch (jpeg_code) {
    case JERR_SOF_UNSUPPORTED:  // lossless, hierarchical
    case JERR_BAD_PRECISION:    // 12 or 16 bits per channel
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
      return ErrorCode::kUnsupported;
    case kTooManyScans:
      return ErrorCode::kInvalidArgument;
    case kStopped:
      return ErrorCode::kCancelled;
    case JERR_OUT_OF_MEMORY:
      return ErrorCode::kSystem;
    default:
      return ErrorCode::kCorrupt;
  }
}

// 255 * result = a * b, rounded.
unsigned multiply_255(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Adobe stores ink inverted, so each byte is light: RGB = black's light less what the ink takes from it. Every CMYK
// file is read so, and with this rounding, because PIL does (Convert.c cmyk2rgb).
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t pixels) {
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const unsigned light = cmyk[3];
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>(light - multiply_255(255U - cmyk[c], light));
  }
}

// The side of a component's blocks after the inverse DCT, and the smallest one of all components.
#if JPEG_LIB_VERSION >= 70
int block_side(const jpeg_component_info& component) {
  return component.DCT_h_scaled_size;
}
int smallest_block_side(const jpeg_decompress_struct& info) {
  return info.min_DCT_h_scaled_size;
}
#else
int block_side(const jpeg_component_info& component) {
  return component.DCT_scaled_size;
}
int smallest_block_side(const jpeg_decompress_struct& info) {
  return info.min_DCT_scaled_size;
}
#endif

// jpeg_crop_scanline() counts a component's columns as if its blocks had the smallest side. In a reduced image chroma
// may have larger blocks. Where such a component is upsampled as well (4:1:0, for instance), upsampling would leave out
// columns, and libjpeg-turbo would hand out memory that it never wrote.
bool can_crop_lines(const jpeg_decompress_struct& info) {
  const int smallest = smallest_block_side(info);
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    const int side = block_side(component);
    const bool upsampled = component.h_samp_factor * side != info.max_h_samp_factor * smallest ||
                           component.v_samp_factor * side != info.max_v_samp_factor * smallest;
    if (side != smallest && upsampled) return false;
  }
  return true;
}

struct Columns {
  std::uint32_t begin;
  std::uint32_t end;
};

// The columns to decode for a box, so that it equals the same part of the whole image. "Fancy" chroma upsampling looks
// one column to each side. It is replaced by a simple one where a component has less than 3 columns, so there are at
// least 3 of each. (Rows need nothing: jpeg_skip_scanlines keeps the rows that upsampling looks at.)
Columns columns_for(const Box& box, const jpeg_decompress_struct& info) {
  const auto sampling = static_cast<std::uint32_t>(info.max_h_samp_factor);
  const std::uint32_t margin = sampling > 1 ? 1 : 0;
  const std::uint32_t least = 2 * sampling + 1;
  const std::uint32_t begin = box.x - std::min(box.x, margin);
  const std::uint32_t end = std::min(std::max(box.x + box.width + margin, begin + least), info.output_width);
  return {std::min(begin, end - std::min(end, least)), end};
}

}  // namespace

struct JpegDecoder::Impl {
  Impl(const DecodeOptions& decode_options, bool walk_scans) : options(decode_options), walks(walk_scans) {}
  ~Impl() { jpeg_destroy_decompress(&info); }

  // Runs libjpeg calls; an error in them ends `body` where it stands.
  template <typename Body>
  Status guarded(Body&& body) {
    if (setjmp(errors.jump) != 0) return make_error(code_of(errors.fatal_code), errors.fatal_text.data());
    body();
    return {};
  }

  void start(std::span<const std::byte> bytes);
  Status check_header() const;
  Status decode_box(const Box& box, std::uint32_t reduce, RowSink& rows, bool may_walk);
  void begin_output(const Box& box, std::uint32_t reduce);
  Status use_baseline();
  Status make_baseline(const CropIndexes::Content& content);
  void begin_walk();
  CropWay make_index();
  Result<SplicedJpeg> splice(const Box& box);
  Status decode_again(const Box& box, std::uint32_t reduce, RowSink& rows);
  void lay_out(bool begun, const Box& box, RowSink& rows);
  void read_rows(const Box& box, RowSink& rows);
  void read_rest();
  Status finish(Status status, const Box& box, RowSink& rows);

  const DecodeOptions options;
  const bool walks;  // where the file allows it
  CropIndexes* indexes = nullptr;
  jpeg_decompress_struct info = {};
  ErrorManager errors = {};
  Watch watch = {};
  std::span<const std::byte> file;  // that info reads
  std::vector<std::byte> baseline;  // the same picture, packed
  ScanWalk walk;
  IndexVisit visit;
  bool visits = false;                     // an index is used: not for whole images
  CropWay crop_way = CropWay::kUnchecked;  // of the last decode()
  std::uint32_t first_column = 0;          // where in a decoded line the box begins
  std::uint32_t first_in_sink = 0;         // and in a line of the sink
  std::uint32_t rows_done = 0;
  std::vector<std::uint8_t> spare_line;  // for what does not go to the sink as it is
  std::string damage;
};

// A fresh decompressor for each image costs a few microseconds; a used one would keep the Huffman and quantisation
// tables of the image before, and a damaged file that lacks its own would decode with those.
void JpegDecoder::Impl::start(std::span<const std::byte> bytes) {
  jpeg_destroy_decompress(&info);
  info = {};
  file = bytes;
  info.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  errors.emit_message = on_message;
  errors.damage = options.damage;
  errors.fatal_code = 0;
  errors.warning_text[0] = '\0';
  jpeg_create_decompress(&info);
  watch.progress_monitor = check_progress;
  watch.scans_max = options.scans_max;
  watch.scanned_pixels_max = options.scanned_pixels_max;
  info.progress = &watch;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
}

Status JpegDecoder::Impl::decode_box(const Box& box, std::uint32_t reduce, RowSink& rows, bool may_walk) {
  first_column = 0;
  rows_done = 0;
  Status status = guarded([&] { begin_output(box, reduce); });
  lay_out(status.has_value(), box, rows);
  if (status && may_walk) begin_walk();
  if (status) status = guarded([&] { read_rows(box, rows); });
  if (status && options.damage == Damage::kReject) status = guarded([&] { read_rest(); });
  return status;
}

// The same picture as a baseline file takes the place of a file whose parts cannot be decoded alone, if there is one.
Status JpegDecoder::Impl::use_baseline() {
  if (!walks || options.damage == Damage::kReject) return {};
  bool needed = false;
  HEADRACE_TRY_DO(guarded([&] { needed = needs_baseline(info); }));
  if (!needed) return {};
  const CropIndexes::Content content = CropIndexes::content_of(file);
  if (!indexes->find(content, baseline)) {
    if (!indexes->takes_baselines()) return {};
    HEADRACE_TRY_DO(make_baseline(content));
  }
  const std::span<const std::byte> jpeg = unpack_baseline(baseline, content.low);
  if (jpeg.empty()) return {};
  const std::span<const std::byte> original = file;
  const Size size = {info.image_width, info.image_height};
  const bool same = guarded([&] { start(jpeg); }) && size == Size{info.image_width, info.image_height};
  return same ? Status() : guarded([&] { start(original); });
}

// Leaves `baseline` empty, and the file as open() left it, where that cannot be done.
Status JpegDecoder::Impl::make_baseline(const CropIndexes::Content& content) {
  BaselineWriter writer(CropIndexFolder::kPackedMax);
  Status made = guarded([&] { writer.write(info); });
  const bool of_the_file =
      made || made.error().code == ErrorCode::kCorrupt || made.error().code == ErrorCode::kUnsupported;
  if (!of_the_file) return made;
  baseline.clear();
  if (made && writer.is_exact()) baseline = pack_baseline(writer.jpeg(), content.low);
  indexes->keep_baseline(content, baseline);
  return baseline.empty() ? guarded([&] { start(file); }) : Status();
}

// Only where libjpeg need not come to the end of the file, which a walk does not.
void JpegDecoder::Impl::begin_walk() {
  crop_way = CropWay::kStrict;
  if (options.damage == Damage::kReject) return;
  crop_way = CropWay::kUnsuited;
  if (!walk.fits(info)) return;
  crop_way = CropWay::kDamaged;
  walk.begin(info);
  if (visits && !visit.begin(*indexes, file, walk.index())) return walk.give_up(info);
  crop_way = CropWay::kIndexed;
}

// No lines are read, so libjpeg only lays out the scan; several scans it would read to their end.
CropWay JpegDecoder::Impl::make_index() {
  if (!walks) return CropWay::kUnchecked;
  if (!use_baseline()) return CropWay::kDamaged;
  if (!walk.fits(info)) return CropWay::kUnsuited;
  if (!guarded([&] { jpeg_start_decompress(&info); })) return CropWay::kDamaged;
  begin_walk();
  if (crop_way != CropWay::kIndexed) return crop_way;
  if (walk.walk_all()) return visit.end(walk.index());
  visit.end_damaged();
  return CropWay::kDamaged;
}

Result<SplicedJpeg> JpegDecoder::Impl::splice(const Box& box) {
  HEADRACE_ASSERT(box.width > 0 && box.height > 0);
  if (visits) HEADRACE_TRY_DO(use_baseline());
  if (!walks || !walk.fits(info)) return make_error(ErrorCode::kUnsupported, "no JPEG that a part can be cut out of");
  HEADRACE_TRY_DO(guarded([&] { jpeg_start_decompress(&info); }));
  begin_walk();
  std::array<HuffmanCodes, kHuffmanTables> dc_codes;
  if (crop_way != CropWay::kIndexed || !walk.dc_codes_for_splice(dc_codes)) {
    return make_error(crop_way == CropWay::kDamaged ? ErrorCode::kCorrupt : ErrorCode::kUnsupported,
                      "a JPEG that no part is cut out of");
  }
  const SpliceShape shape = splice_shape(info, box);
  SplicedJpeg spliced = {.box = shape.box};
  write_splice_header(info, shape.size, dc_codes, spliced.bytes);
  ScanWriter writer(spliced.bytes);
  walk.set_codes_of(writer, dc_codes);
  const ScanWalk::Spliced done = walk.splice(shape.mcus, writer);
  if (visits && done == ScanWalk::Spliced::kRefused) visit.end_damaged();
  if (visits && done != ScanWalk::Spliced::kRefused) crop_way = visit.end(walk.index());
  if (done == ScanWalk::Spliced::kRefused) return make_error(ErrorCode::kCorrupt, "damaged before the part ends");
  if (done == ScanWalk::Spliced::kNoCode) return make_error(ErrorCode::kUnsupported, "unusual Huffman tables");
  writer.finish();
  spliced.bytes.insert(spliced.bytes.end(), {std::byte{0xff}, std::byte{0xd9}});
  return spliced;
}

// As if there had been no walk: libjpeg says what is wrong with the file, and repairs it.
Status JpegDecoder::Impl::decode_again(const Box& box, std::uint32_t reduce, RowSink& rows) {
  crop_way = CropWay::kDamaged;
  if (visits) visit.end_damaged();
  HEADRACE_TRY_DO(guarded([&] { start(file); }));
  return decode_box(box, reduce, rows, false);
}

Status JpegDecoder::Impl::check_header() const {
  if (info.data_precision != 8) {
    return make_error(ErrorCode::kUnsupported, std::to_string(info.data_precision) + " bits per channel");
  }
  if (info.jpeg_color_space == JCS_UNKNOWN) {
    return make_error(ErrorCode::kUnsupported, std::to_string(info.num_components) + " channels");
  }
  return check_size({info.image_width, info.image_height}, options);
}

void JpegDecoder::Impl::begin_output(const Box& box, std::uint32_t reduce) {
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = reduce;
  jpeg_start_decompress(&info);
  first_column = box.x;
  if (box.width == info.output_width || !can_crop_lines(info)) return;

  const Columns columns = columns_for(box, info);
  JDIMENSION x = columns.begin;
  JDIMENSION width = columns.end - columns.begin;
  jpeg_crop_scanline(&info, &x, &width);  // moves x left to where a block begins
  first_column = box.x - x;
}

// libjpeg writes lines of whole blocks. They stay where it writes them, with the row as a part of them: cutting them
// to the box would copy every pixel (7 % of the time of a RandomResizedCrop; bench/compare decode-rrc, 2026-11-21).
void JpegDecoder::Impl::lay_out(bool begun, const Box& box, RowSink& rows) {
  spare_line.resize(std::size_t{info.output_width} * 4);
  const bool in_lines = begun && info.out_color_space == JCS_RGB;
  first_in_sink = in_lines ? first_column : 0;
  rows.begin(box.size(), in_lines ? info.output_width : box.width, first_in_sink);
}

void JpegDecoder::Impl::read_rows(const Box& box, RowSink& rows) {
  if (box.y > 0) jpeg_skip_scanlines(&info, box.y);
  const bool cmyk = info.out_color_space == JCS_CMYK;
  while (rows_done < box.height) {
    std::uint8_t* const place = rows.line();
    JSAMPROW line = cmyk ? spare_line.data() : place;
    jpeg_read_scanlines(&info, &line, 1);
    if (cmyk) cmyk_to_rgb(line + std::size_t{first_column} * 4, place, box.width);
    rows.take(place + std::size_t{first_in_sink} * Image::kChannels);
    ++rows_done;
  }
}

// Decodes what lies behind the box and is not wanted, so that libjpeg finds what is wrong there. The last line is read
// because skipping it would make libjpeg take the rest of the file for read.
void JpegDecoder::Impl::read_rest() {
  const JDIMENSION last = info.output_height - 1;
  if (info.output_scanline < last) jpeg_skip_scanlines(&info, last - info.output_scanline);
  JSAMPROW line = spare_line.data();
  if (info.output_scanline == last) jpeg_read_scanlines(&info, &line, 1);
  jpeg_finish_decompress(&info);
}

// Notes repaired damage; with kSalvage, keeps the rows decoded before a fatal error and blackens the others.
Status JpegDecoder::Impl::finish(Status status, const Box& box, RowSink& rows) {
  damage = status ? errors.warning_text.data() : "";
  jpeg_abort_decompress(&info);
  if (status || options.damage != Damage::kSalvage || status.error().code != ErrorCode::kCorrupt) return status;
  damage = status.error().context;
  for (; rows_done < box.height; ++rows_done) {
    std::uint8_t* const row = rows.line() + std::size_t{first_in_sink} * Image::kChannels;
    std::memset(row, 0, std::size_t{box.width} * Image::kChannels);
    rows.take(row);
  }
  return {};
}

JpegDecoder::JpegDecoder(const DecodeOptions& options, Scans scans)
    : impl_(std::make_unique<Impl>(options, scans == Scans::kWalked)) {}
JpegDecoder::JpegDecoder(const DecodeOptions& options)
    : JpegDecoder(options,
                  options.walk_scans && index_support() == IndexSupport::kWorks ? Scans::kWalked : Scans::kPlain) {}
JpegDecoder::~JpegDecoder() = default;

Result<JpegDecoder::Header> JpegDecoder::open(std::span<const std::byte> bytes) {
  Impl& impl = *impl_;
  impl.damage.clear();
  HEADRACE_TRY_DO(impl.guarded([&] { impl.start(bytes); }));
  HEADRACE_TRY_DO(impl.check_header());
  const jpeg_decompress_struct& info = impl.info;
  return Header{.size = {info.image_width, info.image_height},
                .components = info.num_components,
                .progressive = info.progressive_mode != FALSE,
                .usual_colours = info.jpeg_color_space == JCS_GRAYSCALE || info.jpeg_color_space == JCS_YCbCr};
}

Status JpegDecoder::decode(const Box& box, std::uint32_t reduce, Image& out) {
  ImageSink rows(out);
  return decode(box, reduce, rows);
}

Status JpegDecoder::decode(const Box& box, std::uint32_t reduce, RowSink& rows) {
  Impl& impl = *impl_;
  const Size size = reduced({impl.info.image_width, impl.info.image_height}, reduce);
  HEADRACE_ASSERT(contains(size, box));
  impl.visits = impl.indexes != nullptr && impl.options.walk_scans && box != whole(size);
  impl.crop_way = CropWay::kUnchecked;
  impl.walk.forget();
  if (Status ready = impl.visits ? impl.use_baseline() : Status(); !ready) {
    jpeg_abort_decompress(&impl.info);
    return ready;  // no row was begun that could be salvaged
  }
  Status status = impl.decode_box(box, reduce, rows, impl.walks);
  if (impl.walk.refused()) status = impl.decode_again(box, reduce, rows);
  if (status && impl.visits && impl.crop_way == CropWay::kIndexed) impl.crop_way = impl.visit.end(impl.walk.index());
  status = impl.finish(std::move(status), box, rows);
  if (status && impl.visits) impl.indexes->count(impl.crop_way);
  return status;
}

CropWay JpegDecoder::make_index() {
  Impl& impl = *impl_;
  HEADRACE_ASSERT(impl.indexes != nullptr);
  impl.visits = true;
  impl.walk.forget();
  const CropWay way = impl.make_index();
  jpeg_abort_decompress(&impl.info);
  impl.indexes->count(way);
  return way;
}

Result<SplicedJpeg> JpegDecoder::splice(const Box& box) {
  Impl& impl = *impl_;
  HEADRACE_ASSERT(contains({impl.info.image_width, impl.info.image_height}, box));
  impl.visits = impl.indexes != nullptr;
  impl.walk.forget();
  Result<SplicedJpeg> spliced = impl.splice(box);
  jpeg_abort_decompress(&impl.info);
  if (spliced && impl.visits) impl.indexes->count(impl.crop_way);
  return spliced;
}

void JpegDecoder::use_indexes(CropIndexes& indexes) {
  impl_->indexes = &indexes;
}

void JpegDecoder::end_when(const std::atomic<bool>& stopped) {
  impl_->watch.stopped = &stopped;
}

const std::string& JpegDecoder::damage() const {
  return impl_->damage;
}
void JpegDecoder::forget_damage() {
  impl_->damage.clear();
}

}  // namespace headrace::decode
