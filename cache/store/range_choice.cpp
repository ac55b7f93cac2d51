// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/range_choice.h"

#include <cstddef>
#include <string>

#include "headrace/cache/store/lean_read.h"
#include "headrace/cache/store/part_read.h"

namespace headrace::cache {
namespace {

struct Chunks {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

Chunks chunks_of(const SpanRequest& request) {
  const std::uint64_t file_bytes = request.identity.size_bytes;
  return {chunk_at(file_bytes, request.span.offset),
          chunk_at(file_bytes, request.span.offset + request.span.length - 1)};
}

// In memory or on their way there.
bool are_in_memory(const StoreParts& store, EntryId entry, const Chunks& chunks) {
  for (std::uint32_t chunk = chunks.first; chunk <= chunks.last; ++chunk) {
    if (!store.ram.contains({entry, chunk})) return false;
  }
  return true;
}

bool is_any_on_disk(const StoreParts& store, const SpanRequest& request, const Chunks& chunks) {
  if (store.tiers.empty()) return false;
  const std::string path = store.catalog.path(request.entry);
  for (std::uint32_t chunk = chunks.first; chunk <= chunks.last; ++chunk) {
    if (store.held_on_disk({hash_name(path, chunk), chunk, request.identity})) return true;
  }
  return false;
}

bool is_wanted_on_disk(const StoreParts& store, EntryId entry, std::uint64_t bytes) {
  for (std::size_t i = 0; i < store.tiers.size(); ++i) {
    DiskTier& tier = *store.tiers[i];
    const bool has_room = tier.admits(bytes) && store.has_line_for(tier, footprint_bytes(bytes));
    if (has_room && store.follower->wants(i, entry)) return true;
  }
  return false;
}

bool is_held_alone(const StoreParts& store, const SpanRequest& request) {
  return is_kept_range(store, request) && store.held_on_disk(range_record(store, request));
}

// A tier takes it by itself.
bool stays_alone(const StoreParts& store, const SpanRequest& request) {
  return is_kept_range(store, request) && is_wanted_on_disk(store, request.entry, request.span.length);
}

}  // namespace

RangeChoice::Way RangeChoice::choose(const StoreParts& store, const SpanRequest& request) {
  const bool is_large = is_chunked(request.identity.size_bytes);
  Way way;
  const bool alone = is_alone(request.hint);
  if (is_large && !alone) way.in_stream = streams_.note(request.entry, request.span.offset, request.span.length);
  const bool is_crowded = store.memory.is_crowded();
  if ((is_ahead(request.hint) && !alone) || (!is_large && !is_crowded)) return way;
  const Chunks chunks = chunks_of(request);
  if (are_in_memory(store, request.entry, chunks)) return way;
  if (is_held_alone(store, request)) {
    way.how = How::kLean;
    return way;
  }
  const bool on_disk = is_any_on_disk(store, request, chunks);
  if (on_disk) {
    const bool is_part = chunks.first == chunks.last && request.span.length <= kPartBytesMax;
    if (is_large && is_part && !way.in_stream && !is_worth_chunks(store, request, on_disk)) way.how = How::kPart;
    return way;
  }
  const bool is_lone = alone || (!way.in_stream && request.span.length <= kLeanBytesMax);
  if (is_crowded || (is_lone && (stays_alone(store, request) || !is_worth_chunks(store, request, on_disk))))
    way.how = How::kLean;
  return way;
}

bool RangeChoice::is_worth_chunks(const StoreParts& store, const SpanRequest& request, bool on_disk) {
  const bool fills_tier = !on_disk && is_wanted_on_disk(store, request.entry, kChunkBytes);
  if (fills_tier && store.follower->follows()) return true;  // the order will read all of the file
  if (!fills_tier && !store.can_hold(request.identity.size_bytes)) return false;
  const Chunks chunks = chunks_of(request);
  bool is_worth = false;
  for (std::uint32_t chunk = chunks.first; chunk <= chunks.last; ++chunk) {
    is_worth |= costs_.note({request.entry, chunk}, request.span.length);
  }
  return is_worth;
}

}  // namespace headrace::cache
