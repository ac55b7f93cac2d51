// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/jpeg_baseline.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include <xxhash.h>

// After <jpeglib.h>, which it uses without including it.
#include <jerror.h>

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

BaselineWriter::BaselineWriter(std::size_t bytes_max) : bytes_max_(bytes_max) {
  destination_.init_destination = begin_output;
  destination_.empty_output_buffer = make_room;
  destination_.term_destination = end_output;
}

BaselineWriter::~BaselineWriter() {
  jpeg_destroy_compress(&info_);
  std::free(jpeg_);
}

void BaselineWriter::begin_output(j_compress_ptr info) {
  make_room(info);
}

// All of the room is in use.
boolean BaselineWriter::make_room(j_compress_ptr info) {
  constexpr std::size_t kRoomFirst = std::size_t{64} << 10;
  BaselineWriter& self = *static_cast<BaselineWriter*>(info->client_data);
  const std::size_t room = std::min(std::max(kRoomFirst, 2 * self.room_), self.bytes_max_);
  if (room <= self.room_) ERREXIT(info, JERR_FILE_WRITE);
  void* const larger = std::realloc(self.jpeg_, room);
  if (larger == nullptr) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  self.jpeg_ = static_cast<unsigned char*>(larger);
  self.destination_.next_output_byte = self.jpeg_ + self.room_;
  self.destination_.free_in_buffer = room - self.room_;
  self.room_ = room;
  return TRUE;
}

void BaselineWriter::end_output(j_compress_ptr info) {
  BaselineWriter& self = *static_cast<BaselineWriter*>(info->client_data);
  self.bytes_ = self.room_ - self.destination_.free_in_buffer;
}

void BaselineWriter::write(jpeg_decompress_struct& source) {
  jvirt_barray_ptr* const coefficients = jpeg_read_coefficients(&source);
  exact_ = is_complete(source) && source.err->num_warnings == 0;
  if (!exact_) return;
  info_.err = source.err;
  jpeg_create_compress(&info_);
  jpeg_copy_critical_parameters(&source, &info_);
  info_.optimize_coding = TRUE;
  info_.client_data = this;
  info_.dest = &destination_;
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
