// SPDX-License-Identifier: Apache-2.0
// One segment file of a disk tier: appended to from its start, read at random, never changed in between.
//
// Thread-safety: the members marked constant from any thread; the rest belongs to the SegmentLog, which says when.
// Ownership: shared by the tier and by reads in flight; the file is closed with the last of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "headrace/cache/disk/record_format.h"
#include "headrace/cache/disk/tier_folder.h"
#include "headrace/io/engine.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

struct Segment {
  // Constant.
  std::uint32_t number = 0;  // in the file's name; never used twice
  std::uint32_t place = 0;   // in the tier's table of segments; used again after the segment is removed
  io::UniqueFd fd;
  io::CacheMode cache_mode = io::CacheMode::kDirect;

  // Bytes of records that the index holds for the tier's data set; the rest of the segment is dead weight.
  std::atomic<std::int64_t> useful_bytes = 0;

  // The SegmentLog's.
  std::uint64_t counted_at = 0;                   // KnownFiles::changes() when useful_bytes was counted
  std::uint32_t next_block = 0;                   // where the next record goes
  bool sealed = false;                            // nothing is appended any more
  bool index_dirty = false;                       // the index file lacks something
  bool unsynced = false;                          // written to since the last sync
  std::multiset<std::uint32_t> writes_in_flight;  // their first blocks
  std::vector<IndexedRecord> records;             // what the index file will say; emptied once sealed and written
};

// Makes the file with all its blocks reserved, or opens the one that is there. Errors: kNoSpace, else the system's.
[[nodiscard]] Status open_segment_file(const TierFolder& folder, Segment& segment, bool writable);
[[nodiscard]] Status reserve_blocks(const TierFolder& folder, const Segment& segment);

// Fills `records`, `next_block` and `sealed` from the index file; false where there is none that can be trusted.
[[nodiscard]] bool load_segment_index(const TierFolder& folder, Segment& segment);
// Appends to `records` what lies at or after next_block, by looking for trailers, and moves next_block behind it.
[[nodiscard]] Status scan_segment(const TierFolder& folder, Segment& segment);
// Replaces the index file; frees `records` when sealed.
[[nodiscard]] Status save_segment_index(const TierFolder& folder, Segment& segment, bool sync);

[[nodiscard]] Status sync_segment(const TierFolder& folder, Segment& segment);

// The trailer at the end of a block, when it is one that this segment's record ending there would have.
[[nodiscard]] bool is_trailer_of(const RecordTrailer& trailer, const TierLabel& label, std::uint32_t segment,
                                 std::uint32_t end_block);
// What the index file says of a record.
[[nodiscard]] IndexedRecord indexed_from(const RecordTrailer& trailer);
[[nodiscard]] std::uint64_t hash_payload(std::span<const std::byte> payload);
[[nodiscard]] std::uint64_t trailer_hash(const RecordTrailer& trailer, std::uint64_t salt);

}  // namespace headrace::cache
