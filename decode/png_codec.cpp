// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <spng.h>

#include "headrace/decode/internal/codec.h"

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;

using Context = std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)>;

tl::unexpected<io::Error> error_of(int code) {
  if (code == SPNG_EMEM) return io::system_error(ENOMEM, "PNG");
  return make_error(ErrorCode::kCorrupt, std::string("PNG: ") + spng_strerror(code));
}

io::Result<Context> open(std::span<const std::byte> bytes, spng_ihdr& header) {
  constexpr std::size_t kChunkBytesMax = std::size_t{64} << 20;  // text and profiles, which are not needed here
  Context context(spng_ctx_new(0), &spng_ctx_free);
  if (!context) return error_of(SPNG_EMEM);
  spng_set_chunk_limits(context.get(), kChunkBytesMax, kChunkBytesMax);
  int code = spng_set_png_buffer(context.get(), bytes.data(), bytes.size());
  if (code == 0) code = spng_get_ihdr(context.get(), &header);
  if (code != 0) return error_of(code);
  return context;
}

io::Result<Size> read_size(std::span<const std::byte> bytes) {
  spng_ihdr header = {};
  HEADRACE_TRY(context, open(bytes, header));
  return Size{header.width, header.height};
}

// Transparency is dropped and of 16 bits the upper 8 are kept, as PIL's convert("RGB") does; but grey of 16 bits, too,
// which that cuts off at 255.
//
// Row by row, as spng_decode_image() does it itself. An interlaced image comes in seven passes: a row of a pass fills
// its own pixels of the row of the image.
io::Status decode(std::span<const std::byte> bytes, Image& out, const std::atomic<bool>& stopped) {
  spng_ihdr header = {};
  HEADRACE_TRY(context, open(bytes, header));
  int code = spng_decode_image(context.get(), nullptr, 0, SPNG_FMT_RGB8, SPNG_DECODE_PROGRESSIVE);
  while (code == 0) {
    HEADRACE_TRY_DO(go_on_unless(stopped));
    spng_row_info row = {};
    code = spng_get_row_info(context.get(), &row);
    if (code == 0) code = spng_decode_row(context.get(), out.row(row.row_num), out.row_bytes());
  }
  if (code != SPNG_EOI) return error_of(code);
  return {};
}

}  // namespace

const Codec kPngCodec = {read_size, decode};

}  // namespace headrace::decode
