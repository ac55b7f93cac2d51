// SPDX-License-Identifier: Apache-2.0
// What a disk tier writes, byte for byte (cache/README.md has the same as text). Little-endian throughout.
//
//   tier                  one TierLabel: what this folder is
//   lock                  locked (flock) by the process that owns the tier; holds its pid as text
//   data-sets             one line per data set ever cached: 16 hexadecimal digits of its key, a space, its source
//   segment-00000007      records, each of whole 4096-byte blocks: payload, zeros, RecordTrailer in the last 128 bytes
//   segment-00000007.index  SegmentIndexHeader, then an IndexedRecord per record: the segment without reading it
//
// A record's trailer comes after its payload so that the payload lies where direct I/O wants it, at the start of a
// block, and goes to disk from the very buffer that the source was read into.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "headrace/cache/chunk.h"

namespace headrace::cache {

static_assert(std::endian::native == std::endian::little, "the tier's files are little-endian and mapped as they are");

inline constexpr std::uint32_t kTierVersion = 2;  // 2: the identity has ctime, the data set its file system
inline constexpr std::uint64_t kBlockBytes = 4096;
// What is checked on its own in a record of a chunk: 64 KiB, twice what the kernel reads ahead at first.
inline constexpr std::uint64_t kPieceBytes = 64 << 10;

struct TierLabel {
  static constexpr std::uint64_t kMagic = 0x00726569742d7268;  // "hr-tier" and a zero
  std::uint64_t magic = kMagic;
  std::uint32_t version = kTierVersion;
  std::uint32_t block_bytes = kBlockBytes;
  std::uint64_t segment_bytes = 0;
  std::uint64_t salt = 0;  // random; seeds the hashes of trailers and indexes, so that no payload can pretend to be one
  std::uint64_t reserved[3] = {};
  std::uint64_t hash = 0;  // XXH3 of the bytes before it
};
static_assert(sizeof(TierLabel) == 64 && std::is_trivially_copyable_v<TierLabel>);

struct RecordTrailer {
  static constexpr std::uint32_t kMagic = 0x44524352;  // "RCRD"
  std::uint32_t magic = kMagic;
  std::uint32_t version = kTierVersion;
  std::uint64_t data_set_key = 0;
  std::uint64_t name_hash = 0;  // of path and chunk: RecordName
  std::uint64_t identity_hash = 0;
  std::uint64_t payload_hash = 0;  // XXH3
  std::uint32_t payload_bytes = 0;
  std::uint32_t segment = 0;      // where the record lies: a copy elsewhere is not a record
  std::uint32_t first_block = 0;  // within the segment
  std::uint32_t chunk = 0;
  std::uint64_t file_bytes = 0;  // the identity in full, for people and tools
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  // XXH3, seeded with the salt, of the table before the trailer: the XXH3 of each 64 KiB of the payload. 0: no table.
  std::uint64_t pieces_hash = 0;
  std::int64_t ctime_ns = 0;  // of the identity, too
  std::uint64_t reserved[3] = {};
  std::uint64_t hash = 0;  // XXH3 of the bytes before it, seeded with the tier's salt
};
static_assert(sizeof(RecordTrailer) == kTrailerBytes && std::is_trivially_copyable_v<RecordTrailer>);
static_assert(offsetof(RecordTrailer, payload_bytes) == 40 && offsetof(RecordTrailer, file_bytes) == 56 &&
              offsetof(RecordTrailer, pieces_hash) == 80 && offsetof(RecordTrailer, ctime_ns) == 88 &&
              offsetof(RecordTrailer, hash) == 120);

struct SegmentIndexHeader {
  static constexpr std::uint64_t kMagic = 0x7865646e69676573;  // "segindex"
  std::uint64_t magic = kMagic;
  std::uint32_t version = kTierVersion;
  std::uint32_t segment = 0;
  std::uint32_t record_count = 0;
  std::uint32_t covered_blocks = 0;  // records that begin at or after this block are not in here, unless sealed
  std::uint32_t sealed = 0;          // 1: nothing is appended any more
  std::uint32_t reserved[5] = {};
  std::uint64_t records_hash = 0;  // XXH3 of the records, seeded with the salt
  std::uint64_t hash = 0;          // XXH3 of the bytes before it, seeded with the salt
};
static_assert(sizeof(SegmentIndexHeader) == 64 && std::is_trivially_copyable_v<SegmentIndexHeader>);

struct IndexedRecord {
  std::uint64_t data_set_key = 0;
  std::uint64_t name_hash = 0;
  std::uint64_t identity_hash = 0;
  std::uint64_t payload_hash = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t first_block = 0;
};
static_assert(sizeof(IndexedRecord) == 40 && std::is_trivially_copyable_v<IndexedRecord>);

[[nodiscard]] constexpr std::uint32_t blocks_of(std::uint64_t payload_bytes) {
  return static_cast<std::uint32_t>(footprint_bytes(payload_bytes) / kBlockBytes);
}

[[nodiscard]] constexpr std::uint64_t piece_count(std::uint64_t payload_bytes) {
  return (payload_bytes + kPieceBytes - 1) / kPieceBytes;
}

// Whether a record of so many bytes has a table of its pieces: chunks do, where the zeros before the trailer are
// enough.
[[nodiscard]] constexpr bool has_pieces(std::uint64_t payload_bytes) {
  const std::uint64_t unused = footprint_bytes(payload_bytes) - payload_bytes - kTrailerBytes;
  return payload_bytes > kPieceBytes && payload_bytes <= kChunkBytes &&
         piece_count(payload_bytes) * sizeof(std::uint64_t) <= unused;
}
static_assert(has_pieces(kChunkBytes));

template <typename T>
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace headrace::cache
