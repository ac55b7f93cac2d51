// SPDX-License-Identifier: Apache-2.0
// Makes segments free again in a tier that evicts single records, and so has dead records in every segment.
//
//   Cleaner cleaner(log, state, thread);   // from here on the log begins it, whenever its last free segment was taken
//
// What still matters of the segment with the least of it moves to the segment being filled, record by record; then that
// segment is free. New records wait meanwhile. What may be held (SegmentLog::evicting_bytes()) leaves so much dead that
// at most seven eighths of a segment are moved for it. A record that cannot be read or is not intact stays behind and
// is gone with its segment. An error of the disk, a full segment and closing end the cleaning early; the segment stays.
//
// Thread-safety: everything runs on the tier's I/O thread.
// Ownership: outlives that thread.
#pragma once

#include <memory>
#include <vector>

#include "headrace/cache/disk/segment_log.h"

namespace headrace::cache {

class Cleaner {
 public:
  Cleaner(SegmentLog& log, TierState& state, io::IoThread& thread);
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

 private:
  void start();
  void move_next();
  [[nodiscard]] bool read_record();
  void end_read(const Result<std::uint64_t>& bytes);
  [[nodiscard]] bool is_intact();
  void end(bool nothing_left);

  SegmentLog& log_;
  TierState& state_;
  io::IoThread& thread_;
  // One record is on its way at a time: cleaning goes on beside reads and need not be faster than what fills the tier.
  std::shared_ptr<Segment> from_;  // null: none is being cleaned
  std::vector<RecordSlot> left_;   // of it; the first in the segment at the back
  RecordSlot slot_;                // of the record on its way
  io::Operation read_;
  Append copy_;
};

}  // namespace headrace::cache
