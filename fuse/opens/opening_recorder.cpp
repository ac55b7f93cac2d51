// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/opening_recorder.h"

#include <algorithm>

#include "headrace/cache/opening_profile.h"

namespace headrace::fuse {

namespace {

// HDF5's trees and LMDB's branches lie anywhere, and are read at once.
constexpr std::chrono::seconds kAnywhere{2};
// A program that reads nothing for so long has opened what it wanted.
constexpr std::chrono::seconds kPause{10};
// READs that the kernel sends side by side come out of their order: as far as it reads ahead.
constexpr std::uint64_t kStepBack = 1 << 20;
// Pages between two ranges that are read with them rather than with another request of the source.
constexpr std::uint64_t kGapBytes = 16 << 10;

}  // namespace

bool OpeningRecorder::is_over(Time now) const {
  return now - last_ > kPause || ranges_.size() >= kRangesMax;
}

bool OpeningRecorder::note(const PageRange& range, Time now) {
  const bool goes_back = range.offset + kStepBack < furthest_;
  if (is_over(now) || (goes_back && now - begun_ > kAnywhere)) return false;
  last_ = now;
  furthest_ = std::max(furthest_, range.offset);
  if (range.length > 0) add(range);
  return ranges_.size() < kRangesMax;
}

void OpeningRecorder::add(const PageRange& range) {
  const bool goes_on = range.offset == end_;
  end_ = range.offset + range.length;
  if (range.length > cache::OpeningProfile::kRangeBytesMax) return;  // whoever reads so much at once needs no help
  if (!ranges_.empty()) {
    cache::ChunkRange& last = ranges_.back();
    const std::uint64_t last_end = last.offset + last.length;
    const std::uint64_t begin = std::min(last.offset, range.offset);
    const std::uint64_t end = std::max(last_end, end_);
    const bool is_near = range.offset <= last_end + kGapBytes && last.offset <= end_ + kGapBytes;
    if (is_near && end - begin <= cache::OpeningProfile::kRangeBytesMax) {
      last = {begin, end - begin};
      return;
    }
    if (goes_on) return;  // a stream by now
  }
  ranges_.push_back({range.offset, range.length});
}

}  // namespace headrace::fuse
