// SPDX-License-Identifier: Apache-2.0
// How a file is cut into the units that the tiers hold: whole where it is small, else in chunks of 4 MiB.
//
//   ChunkRange range = chunk_range(file_bytes, chunk);   // where chunk lies in its file
//
// Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "headrace/cache/catalog.h"
#include "headrace/io/buffer.h"

namespace headrace::cache {

// 4 MiB: one request keeps any device busy for milliseconds, yet a 1 GB cache holds 250 of them.
inline constexpr std::uint64_t kChunkBytes = 4ULL << 20;
// Files up to here are one chunk, so that a photograph is never in pieces; ranged reads of it fetch it whole.
inline constexpr std::uint64_t kWholeFileBytesMax = 8ULL << 20;
// What a disk tier appends to a payload (record_format.h); every buffer has room for it, so that a record is written
// from the buffer that the source was read into.
inline constexpr std::size_t kTrailerBytes = 128;

struct ChunkKey {
  EntryId entry = kNoEntry;
  std::uint32_t chunk = 0;
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

// splitmix64's finaliser (Steele et al., OOPSLA 2014): every input bit reaches every output bit.
[[nodiscard]] constexpr std::uint64_t hash_of(ChunkKey key) {
  std::uint64_t hash = (static_cast<std::uint64_t>(key.entry) << 32 | key.chunk) + 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31);
}

struct ChunkRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

[[nodiscard]] constexpr bool is_chunked(std::uint64_t file_bytes) {
  return file_bytes > kWholeFileBytesMax;
}

[[nodiscard]] constexpr std::uint32_t chunk_count(std::uint64_t file_bytes) {
  return is_chunked(file_bytes) ? static_cast<std::uint32_t>((file_bytes + kChunkBytes - 1) / kChunkBytes) : 1;
}

[[nodiscard]] constexpr std::uint32_t chunk_at(std::uint64_t file_bytes, std::uint64_t offset) {
  return is_chunked(file_bytes) ? static_cast<std::uint32_t>(offset / kChunkBytes) : 0;
}

[[nodiscard]] constexpr ChunkRange chunk_range(std::uint64_t file_bytes, std::uint32_t chunk) {
  if (!is_chunked(file_bytes)) return {0, file_bytes};
  const std::uint64_t offset = chunk * kChunkBytes;
  return {offset, std::min(kChunkBytes, file_bytes - offset)};
}

// What a payload takes of the RAM budget and, as a record, of a disk tier: it and its trailer in whole pages.
[[nodiscard]] constexpr std::uint64_t footprint_bytes(std::uint64_t payload_bytes) {
  return (payload_bytes + kTrailerBytes + io::kBufferAlignment - 1) / io::kBufferAlignment * io::kBufferAlignment;
}

}  // namespace headrace::cache
