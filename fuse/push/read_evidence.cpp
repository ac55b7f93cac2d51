// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/read_evidence.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace headrace::fuse {
using cache::SampleIndex;

std::optional<SampleIndex> ReadEvidence::record_of(const PageRange& range, std::span<const SampleIndex> read) const {
  if (read.size() == 1) return read.front();
  std::optional<SampleIndex> only;
  for (const SampleIndex record : read) {
    const cache::RecordExtent extent = records_->set().extent(record);
    const std::uint64_t end = extent.offset + extent.length;
    if (extent.offset < range.offset || end > range.offset + range.length) continue;  // a part of it
    if (only) return std::nullopt;
    only = record;
  }
  return only;
}

std::optional<SampleIndex> ReadEvidence::on_read(const PageRange& range, std::span<const SampleIndex> read) {
  std::optional<SampleIndex> record = record_of(range, read);
  if (!record) {
    std::vector<SampleIndex> both;  // of a record in two pages, which it shares with its neighbours
    std::ranges::copy_if(read, std::back_inserter(both),
                         [this](SampleIndex each) { return std::ranges::find(unclear_, each) != unclear_.end(); });
    if (both.size() == 1) record = both.front();
  }
  unclear_.assign(record ? read.end() : read.begin(), read.end());
  if (!record || std::ranges::find(recent_, *record) != recent_.end()) return std::nullopt;
  recent_.push_back(*record);
  if (recent_.size() > kRecent) recent_.pop_front();
  return record;
}

void ReadEvidence::settle(std::span<const SampleIndex> known) {
  const std::unordered_set<SampleIndex> settled(known.begin(), known.end());
  std::erase_if(recent_, [&settled](SampleIndex record) { return settled.contains(record); });
}

bool ReadEvidence::take_told(SampleIndex record) {
  const auto found = std::ranges::find(recent_, record);
  if (found == recent_.end()) return false;
  recent_.erase(found);
  return true;
}

}  // namespace headrace::fuse
