// SPDX-License-Identifier: Apache-2.0
// Reads a part of a file. Where it spans chunks, these are fetched side by side and copied into one buffer.
//
//   read_span(store, {.entry = entry, .identity = identity, .span = {0, identity.size_bytes}}, done);
#pragma once

#include <optional>

#include "headrace/cache/store/fetch.h"

namespace headrace::cache {

struct SpanRequest {
  EntryId entry = kNoEntry;
  Identity identity;  // the version of the file that is known now
  ChunkRange span;    // within the file
  ReadHint hint = ReadHint::kNow;
  bool ranged = false;  // the reader works through the file by ranges
  unsigned attempts_left = kAttemptsAfterChange;
};

// The same part of the file as it is now, for a read that begins anew; of a file that was read whole, all of it.
// nullopt: nothing is left there.
[[nodiscard]] std::optional<SpanRequest> span_anew(const SpanRequest& request, const Identity& now);

// All bytes are of one version of the file: where a chunk turns out to be of another one, the read begins anew, a few
// times. Errors: as read_chunk(); kNoSpace where the span and one chunk do not fit into the RAM budget.
void read_span(StoreParts& store, const SpanRequest& request, ReadCallback done);

}  // namespace headrace::cache
