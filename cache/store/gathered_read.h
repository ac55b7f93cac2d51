// SPDX-License-Identifier: Apache-2.0
// A read that spans chunks: fetches them side by side and copies their parts into one buffer.
//
//   read_gathered(store, {.entry = entry, .file_bytes = 20 << 20, .span = {0, 20 << 20}}, done);
#pragma once

#include <cstdint>

#include "headrace/cache/store/fetch.h"

namespace headrace::cache {

struct SpanRequest {
  EntryId entry = kNoEntry;
  std::uint64_t file_bytes = 0;
  ChunkRange span;  // within the file, and not empty
  ReadHint hint = ReadHint::kNow;
  bool ranged = false;  // the reader works through the file by ranges
};

// Errors: as read_chunk(); kNoSpace where the span and one chunk do not fit into the RAM budget.
void read_gathered(StoreParts& store, const SpanRequest& request, ReadCallback done);

}  // namespace headrace::cache
