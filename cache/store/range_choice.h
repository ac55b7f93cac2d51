// SPDX-License-Identifier: Apache-2.0
// How a range of a file is read: by its chunks, by the pieces that a disk tier has of it, or from the source alone.
//
//   const RangeChoice::Way way = choice.choose(store, request);
//
// Chunks serve streams, and all that memory holds, an order wants, or is read often enough. A range alone is lean
// (lean_read.h): the source gives what was asked for, and nothing of it is kept. While reads wait for memory all ranges
// are lean: with more streams than chunks fit in memory, each chunk would have to go before its reader comes back.
//
// Thread-safety: every function from any thread.
#pragma once

#include "headrace/cache/store/gathered_read.h"
#include "headrace/cache/store/range_costs.h"
#include "headrace/cache/store/streams.h"

namespace headrace::cache {

class RangeChoice {
 public:
  enum class How : std::uint8_t { kChunks, kPart, kLean };
  struct Way {
    How how = How::kChunks;
    bool in_stream = false;  // the reader goes on from here
  };
  // For a request that is `ranged` and asks for at least a byte.
  [[nodiscard]] Way choose(const StoreParts& store, const SpanRequest& request);

 private:
  [[nodiscard]] bool is_worth_chunks(const StoreParts& store, const SpanRequest& request, bool on_disk);

  Streams streams_;
  RangeCosts costs_;
};

}  // namespace headrace::cache
