// SPDX-License-Identifier: Apache-2.0
// A sample on its way from the store to the page cache, a piece at a time.
//
//   while (fetch.offset < fetch.end) { read(fetch.piece_bytes()); push(); fetch.offset += fetch.piece_bytes(); }
//
// Thread-safety: as a plain value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "headrace/cache/chunk.h"
#include "headrace/cache/view.h"

namespace headrace::fuse {

// Larger samples are fetched and pushed in pieces, of the size in which the store holds them.
inline constexpr std::uint64_t kPieceBytesMax = cache::kChunkBytes;

struct Fetch {
  cache::SampleIndex sample = 0;
  cache::EntryId entry = 0;      // of its file
  std::uint64_t generation = 0;  // of the plan that named it
  std::uint64_t inode = 0;       // of the version that it was known to be when it began
  std::uint64_t begin = 0;       // of what is fetched, in the file of that version
  std::uint64_t end = 0;
  std::uint64_t offset = 0;                            // of the piece
  std::uint64_t memory_bytes = 0;                      // that a piece takes of the store's
  std::uint64_t changes = 0;                           // StaleFiles::changes() when it began
  bool hold_copy = false;                              // the store keeps it for the next time
  bool push = true;                                    // else that is all
  bool is_from_source = false;                         // a piece of it was: no tier had it
  std::optional<std::uint64_t> beacon = std::nullopt;  // the page that is left out
  std::shared_ptr<const cache::View> view = nullptr;   // null: not read

  [[nodiscard]] std::uint64_t piece_bytes() const { return std::min(end - offset, kPieceBytesMax); }
  [[nodiscard]] bool is_one_piece() const { return end - begin <= kPieceBytesMax; }
};

}  // namespace headrace::fuse
