// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/pack_records.h"

#include <algorithm>
#include <utility>

namespace headrace::fuse {
using cache::SampleIndex;

PackRecords::PackRecords(std::shared_ptr<const cache::RecordSet> set, std::uint64_t index_bytes_max,
                         std::uint64_t page_bytes)
    : page_bytes_(page_bytes), set_(std::move(set)) {
  places_.reserve(set_->packs().size());
  std::uint64_t index_bytes = 0;
  for (const cache::Pack& pack : set_->packs()) {
    places_.emplace_back(pack.map);
    index_begin_.push_back(index_.size());
    add_index_of(pack);
  }
  index_begin_.push_back(index_.size());
  for (const IndexPages& each : index_) index_bytes += each.pages.length;
  if (index_bytes <= index_bytes_max) return;
  index_.clear();
  std::ranges::fill(index_begin_, 0);
}

// A page that two ranges share is one of the first.
void PackRecords::add_index_of(const cache::Pack& pack) {
  std::uint64_t taken = 0;
  for (const cache::RecordExtent& range : pack.map.index()) {
    const std::uint64_t begin = std::max(taken, page_begin(range.offset));
    const std::uint64_t end = std::min(page_end(range.offset + range.length), pack.map.file_bytes());
    if (begin < end) index_.push_back({.entry = pack.entry, .pages = {begin, end - begin}});
    taken = std::max(taken, end);
  }
}

PageRange PackRecords::pages_of(SampleIndex record) const {
  if (is_index(record)) return index_[record - set_->count()].pages;
  const cache::RecordSet::Place place = set_->place(record);
  const cache::RecordMap& map = set_->packs()[place.pack].map;
  const cache::RecordExtent extent = map.extent(place.record);
  if (extent.length == 0) return {};
  const std::uint64_t begin = page_begin(extent.offset);
  return {begin, std::min(page_end(extent.offset + extent.length), map.file_bytes()) - begin};
}

std::vector<SampleIndex> PackRecords::records_in(cache::EntryId entry, const PageRange& range) const {
  const std::optional<std::size_t> pack = set_->find_pack(entry);
  if (!pack) return {};
  std::vector<SampleIndex> records = places_[*pack].in_range(range.offset, range.length, page_bytes_);
  for (SampleIndex& record : records) record += set_->first_record(*pack);
  add_index_pages(*pack, range, records);
  return records;
}

void PackRecords::add_index_pages(std::size_t pack, const PageRange& range, std::vector<SampleIndex>& records) const {
  const auto at = [this](std::size_t place) { return index_.begin() + static_cast<std::ptrdiff_t>(place); };
  const auto ends_before = [](const IndexPages& each, std::uint64_t offset) {
    return each.pages.offset + each.pages.length <= offset;
  };
  const auto end = at(index_begin_[pack + 1]);
  for (auto next = std::lower_bound(at(index_begin_[pack]), end, range.offset, ends_before);
       next != end && next->pages.offset < range.offset + range.length; ++next) {
    records.push_back(static_cast<SampleIndex>(set_->count() + static_cast<std::uint64_t>(next - index_.begin())));
  }
}

cache::SampleSizes PackRecords::sizes() const {
  cache::SampleSizes sizes = set_->sizes_in_pages(page_bytes_);
  if (index_.empty()) return sizes;
  std::vector<std::uint32_t> pages = sizes.counts();
  for (const IndexPages& each : index_)
    pages.push_back(static_cast<std::uint32_t>(page_end(each.pages.length) / page_bytes_));
  return cache::SampleSizes(std::move(pages), page_bytes_);
}

std::optional<std::uint64_t> PackRecords::own_page(SampleIndex record) const {
  if (is_index(record)) return std::nullopt;
  const cache::RecordExtent extent = set_->extent(record);
  const std::uint64_t page = page_end(extent.offset);
  if (page + page_bytes_ > extent.offset + extent.length) return std::nullopt;
  return page;
}

}  // namespace headrace::fuse
