// SPDX-License-Identifier: Apache-2.0
// The records of a pack as the page cache has them: in whole pages, which neighbours share.
//
//   PackRecords records(pack, map);
//   records.pages_of(42);                       // what is pushed for it
//   records.records_in({offset, length});       // whom a READ may have been for
//   records.own_page(42);                       // where a READ was for it alone
//
// Thread-safety: immutable. Ownership: shares the map.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "headrace/cache/record_map.h"
#include "headrace/cache/sample_sizes.h"
#include "headrace/fuse/push/read_in_ranges.h"
#include "headrace/io/page_bytes.h"

namespace headrace::fuse {

class PackRecords {
 public:
  // `page_bytes` is the kernel's: of a page that is stored in part nothing is found again.
  PackRecords(cache::EntryId pack, std::shared_ptr<const cache::RecordMap> map,
              std::uint64_t page_bytes = io::page_bytes())
      : pack_(pack), page_bytes_(page_bytes), map_(std::move(map)), places_(*map_) {}

  [[nodiscard]] cache::EntryId pack() const { return pack_; }
  [[nodiscard]] std::uint64_t page_bytes() const { return page_bytes_; }
  [[nodiscard]] const cache::RecordMap& map() const { return *map_; }
  [[nodiscard]] PageRange pages_of(cache::SampleIndex record) const;
  // What pages_of() takes. Pages that two records share count for both.
  [[nodiscard]] cache::SampleSizes sizes() const;
  // As many at most as have a byte in one page.
  [[nodiscard]] std::vector<cache::SampleIndex> records_in(const PageRange& range) const;
  // The first page that holds bytes of this record and of nothing else.
  [[nodiscard]] std::optional<std::uint64_t> own_page(cache::SampleIndex record) const;

 private:
  [[nodiscard]] std::uint64_t page_begin(std::uint64_t offset) const { return offset / page_bytes_ * page_bytes_; }
  [[nodiscard]] std::uint64_t page_end(std::uint64_t offset) const { return page_begin(offset + page_bytes_ - 1); }

  const cache::EntryId pack_;
  const std::uint64_t page_bytes_;
  const std::shared_ptr<const cache::RecordMap> map_;
  const cache::RecordPlaces places_;
};

}  // namespace headrace::fuse
