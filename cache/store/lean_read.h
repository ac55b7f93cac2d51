// SPDX-License-Identifier: Apache-2.0
// Reads a range from the source alone: whole pages of it, and nothing of the chunks that it lies in.
//
//   read_lean(store, request, done);
//
// A record of a packed file costs the source that record, not 4 MiB. The file stays open for the next one
// (source/kept_files.h).
#pragma once

#include "headrace/cache/store/gathered_read.h"

namespace headrace::cache {

// The largest READ of the kernel, a quarter of a chunk.
inline constexpr std::uint64_t kLeanBytesMax = 1 << 20;

// The range stays in no tier. Errors: as read_chunk().
void read_lean(StoreParts& store, const SpanRequest& request, ReadCallback done);

}  // namespace headrace::cache
