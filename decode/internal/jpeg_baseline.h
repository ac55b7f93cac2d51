// SPDX-License-Identifier: Apache-2.0
// A JPEG in several scans, or with arithmetic coding, as a baseline file: the same coefficients and tables in one scan
// of Huffman codes, and so the same pixels. Decoding can begin in the middle of that.
//
//   BaselineWriter writer;
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
  BaselineWriter() = default;
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
  jpeg_compress_struct info_ = {};
  unsigned char* jpeg_ = nullptr;  // libjpeg's: malloc()
  unsigned long bytes_ = 0;
  bool exact_ = false;
};

// Whether no part of the file can be decoded alone. `source` has read its header.
[[nodiscard]] bool needs_baseline(jpeg_decompress_struct& source);

[[nodiscard]] std::vector<std::byte> pack_baseline(std::span<const std::byte> jpeg, std::uint64_t content);
// Empty: these are not the bytes that pack_baseline() made for this content.
[[nodiscard]] std::span<const std::byte> unpack_baseline(std::span<const std::byte> packed, std::uint64_t content);

}  // namespace headrace::decode
