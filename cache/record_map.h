// SPDX-License-Identifier: Apache-2.0
// Where the records of a packed file lie: record number -> extent.
//
//   auto map = open_record_map(directory_fd, "train/data.mdb", "auto");
//   if (!map) log(map.error().message());      // the pack is read as a plain file
//   RecordExtent extent = map->extent(42);     // 42 < map->count()
//   if (!map->is_of(attributes)) ...;          // the pack is another version by now
//
// Indexes are input: a map never has an extent that ends outside of its file, and a count that does not fit is an
// error. A map is true of the version of the pack that it was made from, which it carries, and of no other.
// Thread-safety: immutable after it was made. Ownership: holds no file open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/packed_numbers.h"
#include "headrace/io/file_attributes.h"
#include "headrace/io/result.h"

namespace headrace::cache {

struct RecordExtent {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

// 268 million: the arrays of a map then take 3.2 GB at most. A larger count is refused rather than believed.
inline constexpr std::uint64_t kRecordsMax = std::uint64_t{1} << 28;

class RecordMap {
 public:
  // Records of one length, one after another: takes no memory per record.
  // Errors: kInvalidArgument (a length of 0, of 4 GiB or more; too many records), kCorrupt (the end is outside of the
  // file). No record is too few.
  [[nodiscard]] static io::Result<RecordMap> strided(std::uint64_t file_bytes, std::uint64_t first,
                                                     std::uint64_t record_bytes, std::uint64_t count);
  // Any extents, in as few bytes as they need: 7 a record where these are shorter than 64 KiB, in a file of 1 TiB at
  // most. Made empty, then filled.
  explicit RecordMap(std::uint64_t file_bytes) : file_bytes_(file_bytes) {}
  // Errors: kCorrupt (outside of the file), kInvalidArgument (4 GiB or more, too many records).
  [[nodiscard]] io::Status add(std::uint64_t offset, std::uint64_t length);
  // Records that each end where the next one in the file begins, the last one at the end of the file. `offsets` may be
  // in any order. 12 bytes per record meanwhile, and 4 more where they are in none.
  // Errors: kCorrupt (one is shorter than `record_bytes_min`, or outside of the file), kInvalidArgument as of add().
  [[nodiscard]] static io::Result<RecordMap> adjoining(std::uint64_t file_bytes, std::vector<std::uint64_t> offsets,
                                                       std::uint64_t record_bytes_min);
  // Gives the record at place i of this map the number numbers[i]. Precondition: a permutation of 0 .. count() - 1.
  void renumber(const std::vector<std::uint32_t>& numbers);

  // Several rows are one record: row i is in record i / per_record. Precondition: count() is as many as `rows` need.
  void set_rows(std::uint64_t rows, std::uint64_t per_record);

  // What a reader asks for by number: the records, or the rows in these.
  [[nodiscard]] std::uint64_t rows() const { return rows_per_record_ != 1 ? rows_ : count(); }
  [[nodiscard]] std::uint64_t rows_per_record() const { return rows_per_record_; }
  [[nodiscard]] std::uint64_t count() const { return record_bytes_ != 0 ? strided_count_ : offsets_.size(); }
  // Precondition: record < count().
  [[nodiscard]] RecordExtent extent(std::uint64_t record) const;
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  // What a program reads of the pack to find records, where that lies between them: by offset, apart from each other.
  [[nodiscard]] const std::vector<RecordExtent>& index() const { return index_; }
  // In any order.
  void set_index(std::vector<RecordExtent> ranges);
  // Whether the map is true of this version of the pack. One that was made by hand is of none.
  [[nodiscard]] bool is_of(const io::FileAttributes& pack) const { return made_from_ == pack; }
  void set_made_from(const io::FileAttributes& pack) { made_from_ = pack; }
  [[nodiscard]] std::uint64_t memory_bytes() const {
    return offsets_.memory_bytes() + lengths_.memory_bytes() + index_.size() * sizeof(RecordExtent);
  }

 private:
  std::uint64_t file_bytes_ = 0;
  std::uint64_t first_ = 0;
  std::uint32_t record_bytes_ = 0;  // 0: the extents are in the arrays
  std::uint64_t strided_count_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t rows_per_record_ = 1;
  PackedNumbers offsets_;
  PackedNumbers lengths_;
  std::vector<RecordExtent> index_;
  std::optional<io::FileAttributes> made_from_;
};

// The other way round: offset -> records. Where the records do not lie in the sequence of their numbers this takes 4
// bytes per record. Records that overlap, as only a wrong index has them, are not all found.
// Thread-safety: immutable. Ownership: the map outlives it.
class RecordPlaces {
 public:
  explicit RecordPlaces(const RecordMap& map);

  // The first `most` records, by where they lie, that have a byte in the range.
  [[nodiscard]] std::vector<std::uint32_t> in_range(std::uint64_t offset, std::uint64_t length, std::size_t most) const;
  [[nodiscard]] std::uint64_t memory_bytes() const { return by_offset_.size() * sizeof(std::uint32_t); }

 private:
  [[nodiscard]] std::uint32_t at(std::size_t place) const {
    return by_offset_.empty() ? static_cast<std::uint32_t>(place) : by_offset_[place];
  }
  const RecordMap& map_;
  std::vector<std::uint32_t> by_offset_;  // empty: in the sequence of the numbers
};

// The formats that are known, by their names.
[[nodiscard]] std::vector<std::string_view> record_formats();

// The format that a file's name and first bytes tell; empty for a file that is no pack.
// Errors: the file cannot be read.
[[nodiscard]] io::Result<std::string> record_format_of(int directory_fd, const std::string& path);

// `spec`: "auto", a format as above, "hdf5:NAME" (the data set; else the largest), or "stride=BYTES,offset=O" (the
// offset may be left out). `path` is relative to the folder that is open, and is never followed out of it.
// Errors: kInvalidArgument (the spec), kUnsupported (no pack, or a kind of it that has no map), kCorrupt (the index),
// kStale (it changed meanwhile), and those of reading. Each names the file.
[[nodiscard]] io::Result<RecordMap> open_record_map(int directory_fd, const std::string& path, std::string_view spec);
// The format that a spec names; empty for "auto" and stride.
[[nodiscard]] std::string_view record_format_in(std::string_view spec);

}  // namespace headrace::cache
