// SPDX-License-Identifier: Apache-2.0
// Packs of every format, written after their specifications in as few bytes as there can be, and what a test changes of
// them. Each file of cache/records/ names its specification. HDF5: hdf5_pack.h.
//
//   const std::string tar = tar_member("a/0.jpg", "content") + kTarEnd;
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/put.h"

namespace headrace::test {

inline constexpr std::size_t kPage = 4096;

inline std::string npy(const std::string& dictionary, std::size_t content_bytes) {
  std::string bytes("\x93NUMPY\x01\x00\x00\x00", 10);
  put<std::uint16_t>(bytes, 8, static_cast<std::uint16_t>(dictionary.size()));
  return bytes + dictionary + std::string(content_bytes, 'x');
}

struct LmdbEntry {
  std::string key;
  std::string value;
};

// An LMDB with one leaf page; an empty value stands for one on the overflow page at the end, of 5000 bytes.
inline std::string lmdb(const std::vector<LmdbEntry>& entries) {
  std::string bytes(5 * kPage, '\0');
  for (std::size_t meta = 0; meta < 2; ++meta) {
    const std::size_t at = meta * kPage + 16;
    put<std::uint32_t>(bytes, at, 0xBEEFC0DE);
    put<std::uint32_t>(bytes, at + 4, 1);
    put<std::uint32_t>(bytes, at + 24, kPage);
    put<std::uint64_t>(bytes, at + 104, meta == 1 ? entries.size() : 0);
    put<std::uint64_t>(bytes, at + 112, meta == 1 ? 2 : UINT64_MAX);  // the first meta page is the older one
    put<std::uint64_t>(bytes, at + 128, meta);
  }
  const std::size_t leaf = 2 * kPage;
  put<std::uint16_t>(bytes, leaf + 10, 0x02);
  put<std::uint16_t>(bytes, leaf + 12, static_cast<std::uint16_t>(16 + 2 * entries.size()));
  std::size_t node = kPage;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    const bool big = value.empty();
    node -= (8 + key.size() + (big ? 8 : value.size()) + 1) / 2 * 2;
    put<std::uint16_t>(bytes, leaf + 16 + 2 * i, static_cast<std::uint16_t>(node));
    put<std::uint32_t>(bytes, leaf + node, big ? 5000 : static_cast<std::uint32_t>(value.size()));
    put<std::uint16_t>(bytes, leaf + node + 4, big ? 1 : 0);
    put<std::uint16_t>(bytes, leaf + node + 6, static_cast<std::uint16_t>(key.size()));
    bytes.replace(leaf + node + 8, key.size(), key);
    if (big) put<std::uint64_t>(bytes, leaf + node + 8 + key.size(), 3);
    bytes.replace(leaf + node + 8 + key.size(), value.size(), value);
  }
  return bytes;
}

inline std::string record_io(std::uint32_t magic = 0xced7230a) {
  std::string bytes(40, '\0');
  put(bytes, 0, magic);
  put(bytes, 16, magic);
  return bytes;
}

inline std::string octal(std::uint64_t number, int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number /= 8)
    *digit = static_cast<char>('0' + number % 8);
  return text;
}

inline void sign(std::string& header) {
  header.replace(148, 8, 8, ' ');
  std::uint64_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  header.replace(148, 7, octal(sum, 6) + '\0');
}

// POSIX.1-1988, "ustar Interchange Format".
inline std::string tar_member(const std::string& path, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, path.size(), path);
  header.replace(124, 11, octal(content.size(), 11));
  header[156] = type;
  header.replace(257, 8, std::string("ustar\00000", 8));
  sign(header);
  std::string padded = content;
  padded.resize((content.size() + 511) / 512 * 512);
  return header + padded;
}

inline const std::string kTarEnd(1024, '\0');

// CRC-32C bit by bit, which the reader under test has as a table.
inline std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = UINT32_MAX;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82f63b78U & (0U - (crc & 1U)));
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

inline std::string tf_record(std::uint64_t length, const std::string& data) {
  std::string bytes(12, '\0');
  put<std::uint64_t>(bytes, 0, length);
  put<std::uint32_t>(bytes, 8, masked_crc(std::string_view(bytes).substr(0, 8)));
  return bytes + data + "crc.";
}

inline std::string mds_shard(const std::vector<std::uint32_t>& offsets, std::size_t file_bytes, std::uint32_t samples) {
  std::string bytes(file_bytes, 'x');
  put(bytes, 0, samples);
  for (std::size_t i = 0; i < offsets.size(); ++i) put(bytes, 4 + 4 * i, offsets[i]);
  return bytes;
}

struct FfcvAllocation {
  std::uint64_t sample = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

inline std::string beton(std::uint64_t samples, const std::vector<FfcvAllocation>& allocations) {
  constexpr std::size_t kTable = 8192;
  std::string bytes(kTable + 24 * allocations.size(), '\0');
  put<std::uint16_t>(bytes, 0, 2);
  put<std::uint32_t>(bytes, 4, 4096);
  put<std::uint64_t>(bytes, 8, samples);
  put<std::uint64_t>(bytes, 16, kTable);
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    put(bytes, kTable + 24 * i, allocations[i].sample);
    put(bytes, kTable + 24 * i + 8, allocations[i].offset);
    put(bytes, kTable + 24 * i + 16, allocations[i].bytes);
  }
  return bytes;
}

inline std::string megatron_index(std::uint8_t type, std::uint32_t length, std::uint64_t pointer) {
  std::string bytes(34 + 2 * 12 + 8, '\0');
  bytes.replace(0, 7, "MMIDIDX");
  put<std::uint64_t>(bytes, 9, 1);
  bytes[17] = static_cast<char>(type);
  put<std::uint64_t>(bytes, 18, 2);
  put<std::uint64_t>(bytes, 26, 1);
  put<std::uint32_t>(bytes, 34, 10);
  put<std::uint32_t>(bytes, 38, length);
  put<std::uint64_t>(bytes, 50, pointer);
  return bytes;
}

// A message whose flatbuffer is a vtable of four slots and the table behind it.
inline std::string arrow_message(std::uint8_t kind, std::uint64_t body_bytes, std::size_t body) {
  std::string header(48, '\0');
  put<std::uint32_t>(header, 0, 16);  // where the table is
  put<std::uint16_t>(header, 4, 12);  // the vtable: its bytes, those of the table, then the slots
  put<std::uint16_t>(header, 6, 24);
  put<std::uint16_t>(header, 10, 4);  // slot 1: the kind
  put<std::uint16_t>(header, 14, 8);  // slot 3: the length of the body
  put<std::uint32_t>(header, 16, 12);
  header[20] = static_cast<char>(kind);
  put<std::uint64_t>(header, 24, body_bytes);
  std::string framing(8, '\xff');
  put<std::uint32_t>(framing, 4, static_cast<std::uint32_t>(header.size()));
  return framing + header + std::string(body, 'b');
}

inline std::string end_of_stream() {
  return std::string("\xff\xff\xff\xff\0\0\0\0", 8);
}

}  // namespace headrace::test
