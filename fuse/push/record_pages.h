// SPDX-License-Identifier: Apache-2.0
// Which pages of a record are pushed, and which go with it.
// Pure: no I/O, no threads, no clock.
//
//   RecordPages record_pages(records, pages);
//   if (record_pages.takes_beacon(42)) ...;   // one of its pages is left out, whose READ tells where the reader is
//   drop(record_pages.to_drop(42));           // it is evicted
//
// Thread-safety: none; one owner. Ownership: shares the records; the account of the page cache outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "headrace/fuse/push/pack_records.h"
#include "headrace/fuse/push/page_cache_account.h"

namespace headrace::fuse {

class RecordPages {
 public:
  RecordPages(std::shared_ptr<const PackRecords> records, const PageCacheAccount& pages)
      : records_(std::move(records)), pages_(pages) {}

  // Whether the READ of one page of a record that is fetched is to show that the reader is there: that page is not
  // pushed. Asked once for each.
  [[nodiscard]] bool takes_beacon(cache::SampleIndex record);
  // What is to go of an evicted record: not the pages that it shares with one that is held.
  [[nodiscard]] PageRange to_drop(cache::SampleIndex record) const;

 private:
  [[nodiscard]] std::uint64_t beacon_every() const;
  [[nodiscard]] bool is_shared(cache::SampleIndex record, std::uint64_t page) const;

  const std::shared_ptr<const PackRecords> records_;
  const PageCacheAccount& pages_;
  std::uint64_t since_beacon_ = 0;  // records fetched since one had a beacon
};

}  // namespace headrace::fuse
