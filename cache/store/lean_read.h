// SPDX-License-Identifier: Apache-2.0
// Reads a range alone: whole pages of it, and nothing of the chunks that it lies in.
//
//   read_lean(store, request, done);
//
// A record of a packed file costs the source that record, not 4 MiB. The file stays open for the next one
// (source/kept_files.h). A record that an order names comes again in the next epoch, as the same range: a disk tier
// keeps it as such, and has it from then on. So an epoch in whatever order costs the source the pack once, where chunks
// would cost it the records until enough of each chunk was read, and the chunk as well.
#pragma once

#include "headrace/cache/store/gathered_read.h"

namespace headrace::cache {

// The largest READ of the kernel, a quarter of a chunk.
inline constexpr std::uint64_t kLeanBytesMax = 1 << 20;

// The least that a tier keeps of a range. Each takes 64 bytes of the tier's index: of a pack of 1 TB 2 GB. What is
// smaller comes to a tier with its chunk.
inline constexpr std::uint64_t kKeptRangeBytesMin = 32 << 10;

// Whether disk tiers keep the range by itself. What memory can hold comes there by chunks.
[[nodiscard]] bool is_kept_range(const StoreParts& store, const SpanRequest& request);
// Of a range that is kept by itself.
[[nodiscard]] RecordId range_record(const StoreParts& store, const SpanRequest& request);
// A range that is not kept by itself stays in no tier. Errors: as read_chunk().
void read_lean(StoreParts& store, const SpanRequest& request, ReadCallback done);

}  // namespace headrace::cache
