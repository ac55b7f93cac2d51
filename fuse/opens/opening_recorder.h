// SPDX-License-Identifier: Apache-2.0
// What the opening of one large file reads, told from its READs: those of the first seconds, and those that go on
// upwards from there, as the headers of a file's parts do. Once its records are read in whatever order, it is over.
// Pure: no I/O, no threads, no clock.
//
//   OpeningRecorder recorder(now);
//   if (!recorder.note({offset, length}, now)) save(recorder.ranges());   // it is over
//
// A stream is left out but for its beginning: the store reads ahead of it.
//
// Thread-safety: none; one owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "headrace/cache/chunk.h"
#include "headrace/fuse/push/read_in_ranges.h"

namespace headrace::fuse {

class OpeningRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // 100 000 record batches of one file, and some. What comes after that is not recorded.
  static constexpr std::size_t kRangesMax = 1 << 17;

  explicit OpeningRecorder(Time now) : begun_(now), last_(now) {}

  // Whether the READ is part of the opening. False: that is over.
  [[nodiscard]] bool note(const PageRange& range, Time now);
  // Nothing that is read from here on is part of it.
  [[nodiscard]] bool is_over(Time now) const;
  // In the sequence in which they were read.
  [[nodiscard]] const std::vector<cache::ChunkRange>& ranges() const { return ranges_; }

 private:
  void add(const PageRange& range);

  Time begun_;
  Time last_;
  std::uint64_t furthest_ = 0;  // where the READs have got to
  std::uint64_t end_ = 0;       // of the last one
  std::vector<cache::ChunkRange> ranges_;
};

}  // namespace headrace::fuse
