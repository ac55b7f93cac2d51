// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/memory/ram_shard.h"

#include <algorithm>

#include "headrace/io/result.h"

namespace headrace::cache {
View Holding::view(TierKind from, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t start = std::min<std::uint64_t>(offset, size);  // the file may have shrunk since it was asked for
  View made;
  made.bytes_ = content().subspan(start, std::min(length, size - start));
  made.served_from_ = from;
  made.holding_ = this;
  return made;
}

// The parts of a file that is cut into chunks, and of one that is read by ranges, are shorter than the file.
std::optional<View::WholeFile> View::whole_file() const {
  const bool is_whole = holding_ != nullptr && holding_->size > 0 && holding_->size == holding_->identity.size_bytes;
  return is_whole ? std::optional(WholeFile{holding_->identity, holding_->content()}) : std::nullopt;
}

RamShard::RamShard(std::size_t bucket_count, std::size_t ghost_slots) : buckets_(bucket_count), fifo_(ghost_slots) {}

Holding* RamShard::find(ChunkKey key) {
  Holding* holding = bucket_of(key);
  while (holding != nullptr && holding->key != key) holding = holding->bucket_next;
  return holding;
}

void RamShard::insert(Holding& holding) {
  Holding*& bucket = bucket_of(holding.key);
  holding.bucket_next = bucket;
  bucket = &holding;
  holding.listed = true;
}

void RamShard::enqueue(Holding& holding) {
  counters_.admitted += 1;
  counters_.admitted_bytes += holding.size;
  holding.queued = true;
  if (holding.keep) {
    kept_.push_front(items_, &holding);
  } else {
    fifo_.insert(items_, &holding);
  }
}

void RamShard::leave_queue(Holding& holding) {
  if (holding.keep) {
    kept_.remove(items_, &holding);
  } else {
    fifo_.remove(items_, &holding);
  }
  holding.queued = false;
}

void RamShard::touch(Holding& holding, bool keep) {
  S3Fifo<HoldingItems>::touch(holding.mark);
  if (!keep || holding.keep) return;
  holding.dropped = false;
  if (holding.queued) fifo_.remove(items_, &holding);
  holding.keep = true;
  if (holding.queued) kept_.push_front(items_, &holding);
}

// To the main queue: somebody wanted it more than what passes through the small one.
void RamShard::unkeep(Holding& holding) {
  if (holding.queued) {
    kept_.remove(items_, &holding);
    fifo_.insert_in_main(items_, &holding);
  }
  holding.keep = false;
}

void RamShard::unlist(Holding& holding) {
  HEADRACE_ASSERT(holding.listed);
  Holding** link = &bucket_of(holding.key);
  while (*link != &holding) link = &(*link)->bucket_next;
  *link = holding.bucket_next;
  holding.listed = false;
  if (holding.queued) leave_queue(holding);
}

Holding* RamShard::evict(bool kept_too) {
  Holding* victim = fifo_.evict(items_);
  if (victim == nullptr && kept_too) victim = evict_kept();
  if (victim == nullptr) return nullptr;
  victim->queued = false;
  unlist(*victim);
  counters_.evictions += 1;
  return victim;
}

Holding* RamShard::evict_kept() {
  for (std::size_t left = kept_.count(); left > 0; --left) {
    Holding* const oldest = kept_.back();
    if (oldest->pins == 0) {
      kept_.remove(items_, oldest);
      return oldest;
    }
    kept_.move_to_front(items_, oldest);
  }
  return nullptr;
}

std::size_t RamShard::count() const {
  return fifo_.count() + kept_.count();
}

}  // namespace headrace::cache
