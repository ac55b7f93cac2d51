// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/record_set.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace headrace::cache {

io::Result<RecordSet> RecordSet::make(std::vector<Pack> packs) {
  RecordSet set;
  for (Pack& pack : packs) {
    if (pack.map.count() == 0) continue;
    set.starts_.push_back({.record = static_cast<std::uint32_t>(set.count_), .row = set.rows_});
    set.count_ += pack.map.count();
    set.rows_ += pack.map.rows();
    HEADRACE_TRY_DO(check_counts(set.count_, set.rows_));
    set.by_entry_[pack.entry] = set.packs_.size();
    set.packs_.push_back(std::move(pack));
  }
  if (set.packs_.empty())
    return io::make_error(io::ErrorCode::kNotFound, "this pack, and any other there, has no record");
  return set;
}

io::Status RecordSet::check_counts(std::uint64_t records, std::uint64_t rows) {
  constexpr std::uint64_t kRowsMax = std::numeric_limits<std::uint32_t>::max();
  if (records <= kRecordsMax && rows <= kRowsMax) return {};
  return io::make_error(io::ErrorCode::kUnsupported,
                        records > kRecordsMax ? fmt::format("the packs have more than {} records", kRecordsMax)
                                              : fmt::format("the packs have more than {} rows", kRowsMax));
}

RecordSet::Place RecordSet::place(std::uint32_t record) const {
  HEADRACE_ASSERT(record < count_);
  const auto next = std::ranges::upper_bound(starts_, record, {}, &Start::record);
  const auto pack = static_cast<std::size_t>(std::distance(starts_.begin(), next)) - 1;
  return {.pack = pack, .record = record - starts_[pack].record};
}

std::uint32_t RecordSet::record_of_row(std::uint64_t row) const {
  HEADRACE_ASSERT(row < rows_);
  const auto next = std::ranges::upper_bound(starts_, row, {}, &Start::row);
  const auto pack = static_cast<std::size_t>(std::distance(starts_.begin(), next)) - 1;
  const std::uint64_t within = (row - starts_[pack].row) / packs_[pack].map.rows_per_record();
  return starts_[pack].record + static_cast<std::uint32_t>(within);
}

RecordExtent RecordSet::extent(std::uint32_t record) const {
  const Place at = place(record);
  return packs_[at.pack].map.extent(at.record);
}

std::optional<std::size_t> RecordSet::find_pack(EntryId entry) const {
  const auto found = by_entry_.find(entry);
  if (found == by_entry_.end()) return std::nullopt;
  return found->second;
}

std::uint64_t RecordSet::memory_bytes() const {
  std::uint64_t bytes = 0;
  for (const Pack& pack : packs_) bytes += pack.map.memory_bytes();
  return bytes;
}

SampleSizes RecordSet::content_sizes() const {
  std::vector<std::uint32_t> bytes;
  bytes.reserve(count_);
  for (const Pack& pack : packs_) {
    for (std::uint64_t record = 0; record < pack.map.count(); ++record) bytes.push_back(pack.map.extent(record).length);
  }
  return SampleSizes(std::move(bytes));
}

SampleSizes RecordSet::sizes_in_pages(std::uint64_t page_bytes) const {
  std::vector<std::uint32_t> pages;
  pages.reserve(count_);
  for (const Pack& pack : packs_) {
    for (std::uint64_t record = 0; record < pack.map.count(); ++record) {
      const RecordExtent extent = pack.map.extent(record);
      const std::uint64_t end = (extent.offset + extent.length + page_bytes - 1) / page_bytes;
      pages.push_back(extent.length == 0 ? 0 : static_cast<std::uint32_t>(end - extent.offset / page_bytes));
    }
  }
  return SampleSizes(std::move(pages), page_bytes);
}

}  // namespace headrace::cache
