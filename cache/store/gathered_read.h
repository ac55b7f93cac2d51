// SPDX-License-Identifier: Apache-2.0
// Reads a part of a file. Where it spans chunks, these are fetched side by side and copied into one buffer.
//
//   read_span(store, {.entry = entry, .identity = identity, .span = {0, identity.size_bytes}}, done);
#pragma once

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

// Asks for the part of the span that lies in one chunk.
[[nodiscard]] ChunkRequest part_in_chunk(const SpanRequest& request, std::uint32_t chunk);

// A move for one reader. Where the file is another version by now, it gives way to a read of the same part of that.
class SpanMove : public Move {
 protected:
  SpanMove(StoreParts& store, Holding& holding, const Cargo& cargo, const SpanRequest& request)
      : Move(store, holding, cargo, request.hint), request_(request) {}
  void on_failure(const io::Error& error) override;

  const SpanRequest request_;
};

// All bytes are of one version of the file: where a chunk turns out to be of another one, the read begins anew, a few
// times. Errors: as read_chunk(); kNoSpace where the span and one chunk do not fit into the RAM budget.
void read_span(StoreParts& store, const SpanRequest& request, ReadCallback done);

}  // namespace headrace::cache
