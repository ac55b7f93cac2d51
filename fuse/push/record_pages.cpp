// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/record_pages.h"

#include <algorithm>
#include <vector>

#include "headrace/fuse/push/record_track.h"

namespace headrace::fuse {
using cache::SampleIndex;

// One for so many records that are read. Of those that are held already none is left out, so that where few are
// fetched, more of these have one.
std::uint64_t RecordPages::beacon_every() const {
  const std::uint64_t total = std::max<std::uint64_t>(1, pages_.total_bytes() / RecordTrack::kBeaconEvery);
  const std::uint64_t lacking = pages_.total_bytes() - std::min(pages_.total_bytes(), pages_.wanted_bytes_max());
  return std::clamp<std::uint64_t>(lacking / total, 1, RecordTrack::kBeaconEvery);
}

// Where all records are held, nobody needs to know where the reader is.
bool RecordPages::takes_beacon(SampleIndex record) {
  if (records_->is_index(record)) return false;
  if (pages_.wanted_bytes_max() >= pages_.total_bytes() || ++since_beacon_ < beacon_every()) return false;
  if (pages_.is_read_in(record)) return false;  // its page may be there already
  since_beacon_ = 0;
  return true;
}

bool RecordPages::is_shared(SampleIndex record, std::uint64_t page) const {
  const std::vector<SampleIndex> there =
      records_->records_in(records_->entry_of(record), {page, records_->page_bytes()});
  return std::ranges::any_of(there, [&](SampleIndex each) { return each != record && pages_.is_held(each); });
}

PageRange RecordPages::to_drop(SampleIndex record) const {
  PageRange pages = records_->pages_of(record);
  if (pages.length > 0 && is_shared(record, pages.offset)) {
    const std::uint64_t kept = std::min(pages.length, records_->page_bytes());
    pages = {pages.offset + kept, pages.length - kept};
  }
  if (pages.length == 0) return pages;
  const std::uint64_t last = (pages.offset + pages.length - 1) / records_->page_bytes() * records_->page_bytes();
  if (is_shared(record, last)) pages.length = last - pages.offset;
  return pages;
}

}  // namespace headrace::fuse
