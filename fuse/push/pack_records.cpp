// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/pack_records.h"

#include <algorithm>

namespace headrace::fuse {
using cache::SampleIndex;

PageRange PackRecords::pages_of(SampleIndex record) const {
  const cache::RecordExtent extent = map_->extent(record);
  if (extent.length == 0) return {};
  const std::uint64_t begin = page_begin(extent.offset);
  return {begin, std::min(page_end(extent.offset + extent.length), map_->file_bytes()) - begin};
}

cache::SampleSizes PackRecords::sizes() const {
  std::vector<std::uint32_t> pages(map_->count());
  for (SampleIndex record = 0; record < pages.size(); ++record) {
    pages[record] = static_cast<std::uint32_t>(page_end(pages_of(record).length) / page_bytes_);
  }
  return cache::SampleSizes(std::move(pages), page_bytes_);
}

std::vector<SampleIndex> PackRecords::records_in(const PageRange& range) const {
  return places_.in_range(range.offset, range.length, page_bytes_);
}

std::optional<std::uint64_t> PackRecords::own_page(SampleIndex record) const {
  const cache::RecordExtent extent = map_->extent(record);
  const std::uint64_t page = page_end(extent.offset);
  if (page + page_bytes_ > extent.offset + extent.length) return std::nullopt;
  return page;
}

}  // namespace headrace::fuse
