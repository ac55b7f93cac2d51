// SPDX-License-Identifier: Apache-2.0
// The packs of a data set as one sequence of records: those of the first pack, then those of the second, and so on.
//
//   HEADRACE_TRY(set, open_record_set(directory_fd, catalog, "auto"));
//   catalog.path(set->entry(42)), set->extent(42);   // 42 < set->count()
//
// Thread-safety: immutable. Ownership: holds no file open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/record_map.h"
#include "headrace/cache/sample_sizes.h"
#include "headrace/io/result.h"

namespace headrace::cache {

struct Pack {
  EntryId entry = kNoEntry;
  RecordMap map;
};

class RecordSet {
 public:
  // Errors: kNotFound (no record), kUnsupported (more of them than kRecordsMax in all, or more than 2^32 rows).
  [[nodiscard]] static io::Result<RecordSet> make(std::vector<Pack> packs);

  // The same limits, while packs are looked up one by one. Errors: kUnsupported.
  [[nodiscard]] static io::Status check_counts(std::uint64_t records, std::uint64_t rows);

  [[nodiscard]] const std::vector<Pack>& packs() const { return packs_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // What a reader asks for by number: as RecordMap::rows(), over all packs.
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  // Precondition: row < rows().
  [[nodiscard]] std::uint32_t record_of_row(std::uint64_t row) const;
  // Where several rows share a record, a reader of records cannot be told by these which rows it reads.
  [[nodiscard]] bool has_shared_rows() const { return rows_ != count_; }

  struct Place {
    std::size_t pack = 0;
    std::uint32_t record = 0;  // within the pack
  };
  // Precondition: record < count(), here and below.
  [[nodiscard]] Place place(std::uint32_t record) const;
  // The number of the first record of a pack.
  [[nodiscard]] std::uint32_t first_record(std::size_t pack) const { return starts_[pack].record; }
  [[nodiscard]] EntryId entry(std::uint32_t record) const { return packs_[place(record).pack].entry; }
  [[nodiscard]] RecordExtent extent(std::uint32_t record) const;
  // nullopt: that file is none of the packs.
  [[nodiscard]] std::optional<std::size_t> find_pack(EntryId entry) const;

  // A line for each pack that is broken, and none of these.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  void set_left_out(std::vector<std::string> lines) { left_out_ = std::move(lines); }

  [[nodiscard]] std::uint64_t memory_bytes() const;  // of the maps

  // What each record has in bytes, and what it takes in whole pages.
  [[nodiscard]] SampleSizes content_sizes() const;
  [[nodiscard]] SampleSizes sizes_in_pages(std::uint64_t page_bytes) const;

 private:
  RecordSet() = default;

  struct Start {
    std::uint32_t record = 0;
    std::uint64_t row = 0;
  };
  std::vector<Pack> packs_;  // each has a record
  std::vector<Start> starts_;
  std::unordered_map<EntryId, std::size_t> by_entry_;
  std::uint64_t count_ = 0;
  std::uint64_t rows_ = 0;
  std::vector<std::string> left_out_;
};

// Whether a path is one of a file that is about to become another, or was it once: hidden, or named as downloads,
// editors and copies name it ("003.tar.crdownload", "002.tar.tmp", "001.tar~").
[[nodiscard]] bool is_leftover(std::string_view path);

// All packs of one format in a data set, sorted by their paths, without leftovers. One that is broken is left out, with
// a line. `records`: as open_record_map() takes it; the paths of the catalog are below the folder that is open.
// Errors: kInvalidArgument (there is none; packs of several formats; more than 10 000 files), those of
// open_record_map() where none is sound or the spec is wrong, and of RecordSet::make().
[[nodiscard]] io::Result<std::shared_ptr<const RecordSet>> open_record_set(int directory_fd, const Catalog& catalog,
                                                                           std::string_view records);

}  // namespace headrace::cache
