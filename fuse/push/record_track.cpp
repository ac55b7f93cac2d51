// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/record_track.h"

#include <algorithm>
#include <utility>

namespace headrace::fuse {
using cache::SampleIndex;

// 65 536 places bound what one READ looks at: 10 workers that draw two batches of 2 048 ahead.
std::uint64_t RecordTrack::spread_of(const cache::Order& order) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 16;
  const cache::WorkerLayout workers = order.workers();
  const std::uint64_t batches = std::uint64_t{workers.workers} * (std::uint64_t{workers.prefetch_factor} + 1);
  return std::min(kMost, workers.batch * batches);
}

RecordTrack::RecordTrack(std::shared_ptr<const cache::Order> order, const Start& start)
    : order_(std::move(order)),
      spread_(spread_of(*order_)),
      end_epoch_(start.epoch + std::min(start.epoch_count, UINT64_MAX - start.epoch)) {
  restart(start);
}

void RecordTrack::restart(const Start& start) {
  rows_.clear();
  next_epoch_ = start.epoch;
  next_ = heard_ = start.position;
  seen_far_.reset();
}

// nullopt: the order ends before.
std::optional<SampleIndex> RecordTrack::at(std::uint64_t place) {
  std::uint64_t begin = 0;
  for (std::size_t row = 0;; ++row) {
    if (row == rows_.size()) {
      if (row == 2 || next_epoch_ >= end_epoch_) return std::nullopt;
      io::Result<std::vector<SampleIndex>> drawn = order_->epoch(next_epoch_);
      if (!drawn || drawn->empty()) return std::nullopt;
      rows_.push_back(std::move(*drawn));
      ++next_epoch_;
    }
    if (place - begin < rows_[row].size()) return rows_[row][place - begin];
    begin += rows_[row].size();
  }
}

std::optional<std::uint64_t> RecordTrack::nearest(std::span<const SampleIndex> records) {
  for (std::uint64_t place = next_; place < heard_ + kFar; ++place) {
    const std::optional<SampleIndex> record = at(place);
    if (!record) break;
    if (std::ranges::find(records, *record) != records.end()) return place;
  }
  for (std::uint64_t place = next_; place > 0 && next_ - place < kBehind; --place) {
    const std::optional<SampleIndex> record = at(place - 1);
    if (record && std::ranges::find(records, *record) != records.end()) return place - 1;
  }
  return std::nullopt;
}

bool RecordTrack::goes_on_to(std::uint64_t place) {
  if (place < heard_ + kNear + spread_) return true;
  const std::optional<std::uint64_t> before = std::exchange(seen_far_, place);
  return before && place > *before && place - *before < kNear + spread_;
}

RecordTrack::Heard RecordTrack::on_read(std::span<const SampleIndex> records) {
  Heard heard;
  if (records.empty()) return heard;  // an index, or what lies between records
  const std::optional<std::uint64_t> place = nearest(records);
  if (!place) {
    heard.stray = records.front();
    heard.is_unexpected = true;
    return heard;
  }
  if (*place < heard_) return heard;
  if (!goes_on_to(*place)) {
    heard.is_unexpected = true;
    return heard;
  }
  heard_ = *place + 1;
  seen_far_.reset();
  while (next_ + spread_ < heard_) heard.passed.push_back(*at(next_++));
  while (!rows_.empty() && next_ >= rows_.front().size()) {
    next_ -= rows_.front().size();
    heard_ -= rows_.front().size();
    rows_.pop_front();
  }
  return heard;
}

}  // namespace headrace::fuse
