// SPDX-License-Identifier: Apache-2.0
// Where the records of a packed file lie: record number -> extent.
//
//   auto map = open_record_map(directory_fd, "train/data.mdb", "auto");
//   if (!map) log(map.error().message());      // the pack is read as a plain file
//   RecordExtent extent = map->extent(42);     // 42 < map->count()
//
// Indexes are input: a map never has an extent that ends outside of its file, and a count that does not fit is an
// error.
// Thread-safety: immutable after it was made. Ownership: holds no file open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cache {

struct RecordExtent {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

// 268 million: the arrays of a map then take 3.2 GB. A larger count is refused rather than believed.
inline constexpr std::uint64_t kRecordsMax = std::uint64_t{1} << 28;

class RecordMap {
 public:
  // Records of one length, one after another: takes no memory per record.
  // Errors: kInvalidArgument (a length of 0, of 4 GiB or more; too many records), kCorrupt (the end is outside of the
  // file). No record is too few.
  [[nodiscard]] static io::Result<RecordMap> strided(std::uint64_t file_bytes, std::uint64_t first,
                                                     std::uint64_t record_bytes, std::uint64_t count);
  // Any extents: 12 bytes per record. Made empty, then filled.
  explicit RecordMap(std::uint64_t file_bytes) : file_bytes_(file_bytes) {}
  // Errors: kCorrupt (outside of the file), kInvalidArgument (4 GiB or more, too many records).
  [[nodiscard]] io::Status add(std::uint64_t offset, std::uint64_t length);
  // Gives the record at place i of this map the number numbers[i]. Precondition: a permutation of 0 .. count() - 1.
  void renumber(const std::vector<std::uint32_t>& numbers);

  [[nodiscard]] std::uint64_t count() const { return record_bytes_ != 0 ? strided_count_ : offsets_.size(); }
  // Precondition: record < count().
  [[nodiscard]] RecordExtent extent(std::uint64_t record) const;
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  std::uint64_t file_bytes_ = 0;
  std::uint64_t first_ = 0;
  std::uint32_t record_bytes_ = 0;  // 0: the extents are in the arrays
  std::uint64_t strided_count_ = 0;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> lengths_;
};

// The format that a file's name and first bytes tell: "npy", "lmdb" or "recordio"; empty for a file that is no pack.
// Errors: the file cannot be read.
[[nodiscard]] io::Result<std::string> record_format_of(int directory_fd, const std::string& path);

// `spec`: "auto", a format as above, or "stride=BYTES,offset=O" (the offset may be left out). `path` is relative to the
// folder that is open, and is never followed out of it.
// Errors: kInvalidArgument (the spec), kUnsupported (no pack, or a kind of it that has no map), kCorrupt (the index),
// and those of reading. Each names the file.
[[nodiscard]] io::Result<RecordMap> open_record_map(int directory_fd, const std::string& path, std::string_view spec);

}  // namespace headrace::cache
