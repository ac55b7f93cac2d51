// SPDX-License-Identifier: Apache-2.0
// A small read in the middle of a large file takes from a disk tier the pieces that it touches, not the whole chunk.
//
//   if (request.length <= kPartBytesMax) read_part(store, request, done);
#pragma once

#include <cstdint>

#include "headrace/cache/store/fetch.h"

namespace headrace::cache {

// A sixteenth of a chunk: reads up to here are answered in a fraction of the time that the chunk takes. Random reads of
// 64 KiB from a tier on a virtual disk: 4300 per second instead of 590 (0.2 ms instead of 1.6, 2026-11-22).
inline constexpr std::uint64_t kPartBytesMax = 256 << 10;

// What no tier has in pieces is read as by read_chunk(). Errors: as read_chunk().
void read_part(StoreParts& store, const ChunkRequest& request, ReadCallback done);

}  // namespace headrace::cache
