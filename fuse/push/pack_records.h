// SPDX-License-Identifier: Apache-2.0
// The records of packs as the page cache has them: in whole pages of their files, which neighbours share.
//
//   PackRecords records(set);
//   records.pages_of(42);                              // what is pushed for it, in the file entry_of(42)
//   records.records_in(entry, {offset, length});       // whom a READ may have been for
//   records.own_page(42);                              // where a READ was for it alone
//
// The pages of an index by which programs find records are numbered after the last record, as far as they are few.
//
// Thread-safety: immutable. Ownership: shares the set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "headrace/cache/record_set.h"
#include "headrace/cache/sample_sizes.h"
#include "headrace/fuse/push/read_in_ranges.h"
#include "headrace/io/page_bytes.h"

namespace headrace::fuse {

class PackRecords {
 public:
  // `page_bytes` is the kernel's: of a page that is stored in part nothing is found again.
  // `index_bytes_max`: what all indexes together may take; with more of them none is kept.
  explicit PackRecords(std::shared_ptr<const cache::RecordSet> set, std::uint64_t index_bytes_max = 0,
                       std::uint64_t page_bytes = io::page_bytes());

  // Records and pages of indexes.
  [[nodiscard]] std::uint64_t count() const { return set_->count() + index_.size(); }
  [[nodiscard]] bool is_index(cache::SampleIndex record) const { return record >= set_->count(); }

  [[nodiscard]] const cache::RecordSet& set() const { return *set_; }
  [[nodiscard]] std::uint64_t page_bytes() const { return page_bytes_; }
  [[nodiscard]] bool is_pack(cache::EntryId entry) const { return set_->find_pack(entry).has_value(); }
  [[nodiscard]] cache::EntryId entry_of(cache::SampleIndex record) const {
    return is_index(record) ? index_[record - set_->count()].entry : set_->entry(record);
  }
  [[nodiscard]] PageRange pages_of(cache::SampleIndex record) const;
  [[nodiscard]] std::uint64_t content_bytes(cache::SampleIndex record) const {
    return is_index(record) ? pages_of(record).length : set_->extent(record).length;
  }
  // What pages_of() takes. Pages that two records share count for both.
  [[nodiscard]] cache::SampleSizes sizes() const;
  // As many at most as have a byte in one page. None of a file that is no pack. Pages of its index come last.
  [[nodiscard]] std::vector<cache::SampleIndex> records_in(cache::EntryId entry, const PageRange& range) const;
  // The first page that holds bytes of this record and of nothing else.
  [[nodiscard]] std::optional<std::uint64_t> own_page(cache::SampleIndex record) const;

 private:
  [[nodiscard]] std::uint64_t page_begin(std::uint64_t offset) const { return offset / page_bytes_ * page_bytes_; }
  [[nodiscard]] std::uint64_t page_end(std::uint64_t offset) const { return page_begin(offset + page_bytes_ - 1); }

  const std::uint64_t page_bytes_;
  const std::shared_ptr<const cache::RecordSet> set_;
  struct IndexPages {
    cache::EntryId entry = cache::kNoEntry;
    PageRange pages;
  };
  void add_index_of(const cache::Pack& pack);
  void add_index_pages(std::size_t pack, const PageRange& range, std::vector<cache::SampleIndex>& records) const;

  std::vector<cache::RecordPlaces> places_;  // of each pack
  std::vector<IndexPages> index_;            // pack by pack, by offset
  std::vector<std::size_t> index_begin_;     // of each pack's, and the end of all
};

}  // namespace headrace::fuse
