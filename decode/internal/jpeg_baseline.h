// SPDX-License-Identifier: Apache-2.0
// A JPEG in several scans, or with arithmetic coding, as a baseline file: the same coefficients and tables in one scan
// of Huffman codes, and so the same pixels. Decoding can begin in the middle of that.
//
//   BaselineWriter writer(CropIndexFolder::kPackedMax);
//   ... writer.write(info) ...        // where libjpeg may jump out of
//   if (writer.is_exact()) indexes.keep_baseline(content, writer.jpeg());
//
// Packed, little-endian, as it is kept: magic (4 bytes, the last one is the version), 4 zeros, checksum (8: XXH3 of the
// rest, seeded with the content of the original), the JPEG.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

// After <cstdio>, which it uses without including it.
#include <jpeglib.h>

namespace headrace::decode {

class BaselineWriter {
 public:
  // A file that would have `bytes_max` bytes or more is an error of libjpeg's (JERR_FILE_WRITE).
  explicit BaselineWriter(std::size_t bytes_max);
  ~BaselineWriter();
  BaselineWriter(const BaselineWriter&) = delete;
  BaselineWriter& operator=(const BaselineWriter&) = delete;

  // Reads all of the file whose header `source` has read, and makes the other one if it can. Errors go where those of
  // `source` go.
  void write(jpeg_decompress_struct& source);
  // After write(): the file was sound, and complete. libjpeg smooths the blocks of one that lacks coefficients, which
  // it would not do with a baseline file.
  [[nodiscard]] bool is_exact() const { return exact_; }
  [[nodiscard]] std::span<const std::byte> jpeg() const { return {reinterpret_cast<const std::byte*>(jpeg_), bytes_}; }

 private:
  static void begin_output(j_compress_ptr info);
  static boolean make_room(j_compress_ptr info);
  static void end_output(j_compress_ptr info);

  const std::size_t bytes_max_;
  jpeg_compress_struct info_ = {};
  // Not libjpeg's own one for memory: where an error ends that, it has freed what its caller knows of.
  jpeg_destination_mgr destination_ = {};
  unsigned char* jpeg_ = nullptr;  // malloc()
  std::size_t room_ = 0;           // there
  std::size_t bytes_ = 0;
  bool exact_ = false;
};

// Whether no part of the file can be decoded alone. `source` has read its header; else it is an error of libjpeg's.
[[nodiscard]] bool needs_baseline(jpeg_decompress_struct& source);

[[nodiscard]] std::vector<std::byte> pack_baseline(std::span<const std::byte> jpeg, std::uint64_t content);
// Empty: these are not the bytes that pack_baseline() made for this content.
[[nodiscard]] std::span<const std::byte> unpack_baseline(std::span<const std::byte> packed, std::uint64_t content);

}  // namespace headrace::decode
