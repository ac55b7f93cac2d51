// SPDX-License-Identifier: Apache-2.0
// Makes segments free again in a tier that evicts single records, and so has dead records in every segment.
//
//   Cleaner cleaner(log, state, thread);   // from here on the log begins it, whenever its last free segment was taken
//
// What still matters of the segment with the least of it moves to the segment being filled; then that segment is free.
// Several records are on their way at once, because one at a time waits for the device twice per record. Reads that
// somebody waits for go before them (io::kNobodyWaits). New records wait meanwhile. What may be held
// (SegmentLog::evicting_bytes()) leaves so much dead that at most seven eighths of a segment are moved for it. A record
// that cannot be read or is not intact stays behind and is gone with its segment. An error of the disk, a full segment
// and closing end the cleaning early; the segment stays.
//
// Thread-safety: everything runs on the tier's writer.
// Ownership: outlives that thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "headrace/cache/disk/segment_log.h"

namespace headrace::cache {

class Cleaner {
 public:
  // 16: 110 kB each are 1.8 MB under way, which keeps an SSD busy, and a hard disk writes them in one go.
  static constexpr std::size_t kMovesMax = 16;

  Cleaner(SegmentLog& log, TierState& state, io::IoThread& thread);
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

 private:
  // One record on its way.
  struct Move {
    Cleaner* cleaner = nullptr;
    bool is_under_way = false;
    RecordSlot slot = {};
    io::Operation read = {};
    Append copy = {};
  };

  void start();
  void go_on();
  [[nodiscard]] bool has_room_for(const RecordSlot& slot) const;
  [[nodiscard]] Move* idle_move();
  [[nodiscard]] bool begin(Move& move, const RecordSlot& slot);
  void end_read(Move& move, const Result<std::uint64_t>& bytes);
  [[nodiscard]] bool take_intact(Move& move) const;
  void end(Move& move);
  void end_cleaning();

  SegmentLog& log_;
  TierState& state_;
  io::IoThread& thread_;
  std::shared_ptr<Segment> from_;  // null: none is being cleaned
  std::vector<RecordSlot> left_;   // of it; the first in the segment at the back
  bool is_cut_short_ = false;      // its cleaning
  std::array<Move, kMovesMax> moves_ = {};
  std::size_t under_way_ = 0;
  std::uint64_t bytes_under_way_ = 0;
};

}  // namespace headrace::cache
