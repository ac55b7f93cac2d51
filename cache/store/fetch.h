// SPDX-License-Identifier: Apache-2.0
// Reads one chunk, or a part of it: from memory, else by a fetch. However many want a chunk, one fetch brings it.
//
//   read_chunk(store, {.key = {entry, chunk}, .offset = 100, .length = 50}, [](Result<View> view) { ... });
#pragma once

#include <cstdint>
#include <optional>

#include "headrace/cache/chunk.h"
#include "headrace/cache/store/move.h"
#include "headrace/cache/view.h"

namespace headrace::cache {

// Where a fetch has its memory from. Who holds memory already must not wait for more (memory_queue.h).
enum class FetchMemory : std::uint8_t {
  kInLine,    // from the queue
  kReserved,  // from the caller, who has reserved it; given back where no fetch is needed
  kLent,      // from the caller, who has it back once `done` has let go of the view: nobody else gets this content
};

// A part of one chunk, and how it is wanted.
struct ChunkRequest {
  ChunkKey key;
  std::uint64_t offset = 0;  // within the chunk
  std::uint64_t length = UINT64_MAX;
  // Key and offset are of a version that is cut into chunks. Of one that is not, the only chunk begins and ends
  // elsewhere, and a read that crosses such a change ends with kStale.
  bool is_cut = false;
  ReadHint hint = ReadHint::kNow;
  bool ranged = false;         // the reader works through the file by ranges
  bool for_disk_fill = false;  // by a fill (fill.h), which writes to a tier itself and is nobody's use of the file
  bool for_peer_fill = false;  // by a fill, the same for a peer
  // How often the chunk is read again where the file is another one. Memory of the caller is for one fetch: there the
  // caller begins anew.
  unsigned attempts_left = kAttemptsAfterChange;
  FetchMemory memory = FetchMemory::kInLine;
  std::uint64_t memory_bytes = 0;  // unless in line: at least what the chunk takes, else kStale: the file has grown
};

// nullopt: RAM does not hold the chunk.
[[nodiscard]] std::optional<View> read_from_memory(StoreParts& store, const ChunkRequest& request);
// `done` runs at once where memory has the chunk, else on the thread on which the fetch ends.
// Errors: kNotFound, kStale, kBusy, kNoSpace, kCancelled, else what the source said.
void read_chunk(StoreParts& store, const ChunkRequest& request, ReadCallback done);
// A move that was begun ahead goes before the others of its kind, wherever it is.
void hurry_move(StoreParts& store, const RamTier::Wanted& move);

}  // namespace headrace::cache
