// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/jpeg_baseline.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include <xxhash.h>

namespace headrace::decode {
namespace {

constexpr std::uint32_t kMagic = 0x01424a48;  // "HJB", version 1

struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t zeros = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 16 && std::endian::native == std::endian::little);

std::uint64_t checksum_of(std::span<const std::byte> jpeg, std::uint64_t content) {
  return XXH3_64bits_withSeed(jpeg.data(), jpeg.size(), content);
}

// Every bit of every coefficient came.
bool is_complete(const jpeg_decompress_struct& info) {
  if (info.coef_bits == nullptr) return true;  // not progressive
  return std::all_of(info.coef_bits, info.coef_bits + info.num_components, [](const int(&bits)[DCTSIZE2]) {
    return std::all_of(std::begin(bits), std::end(bits), [](int missing) { return missing == 0; });
  });
}

}  // namespace

bool needs_baseline(jpeg_decompress_struct& source) {
  return jpeg_has_multiple_scans(&source) != FALSE || source.arith_code != FALSE;
}

BaselineWriter::~BaselineWriter() {
  jpeg_destroy_compress(&info_);
  std::free(jpeg_);
}

void BaselineWriter::write(jpeg_decompress_struct& source) {
  jvirt_barray_ptr* const coefficients = jpeg_read_coefficients(&source);
  exact_ = is_complete(source) && source.err->num_warnings == 0;
  if (!exact_) return;
  info_.err = source.err;
  jpeg_create_compress(&info_);
  jpeg_copy_critical_parameters(&source, &info_);
  info_.optimize_coding = TRUE;
  jpeg_mem_dest(&info_, &jpeg_, &bytes_);
  jpeg_write_coefficients(&info_, coefficients);
  jpeg_finish_compress(&info_);
}

std::vector<std::byte> pack_baseline(std::span<const std::byte> jpeg, std::uint64_t content) {
  const Header header = {.checksum = checksum_of(jpeg, content)};
  std::vector<std::byte> packed(sizeof header + jpeg.size());
  std::memcpy(packed.data(), &header, sizeof header);
  std::memcpy(packed.data() + sizeof header, jpeg.data(), jpeg.size());
  return packed;
}

std::span<const std::byte> unpack_baseline(std::span<const std::byte> packed, std::uint64_t content) {
  Header header;
  if (packed.size() < sizeof header) return {};
  std::memcpy(&header, packed.data(), sizeof header);
  const std::span<const std::byte> jpeg = packed.subspan(sizeof header);
  return header.magic == kMagic && header.checksum == checksum_of(jpeg, content) ? jpeg : std::span<const std::byte>();
}

}  // namespace headrace::decode
