// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/memory/ram_shard.h"

#include <algorithm>

#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

constexpr std::uint8_t kUsesMax = 3;          // two bits, as in the paper
constexpr std::uint64_t kSmallFraction = 10;  // the small queue's share: one part in ten, as in the paper

// Never 0, which stands for "nobody".
std::uint32_t ghost_mark(ChunkKey key) {
  return static_cast<std::uint32_t>(hash_of(key) >> 32) | 1U;
}

}  // namespace

View Holding::view(TierKind from, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t start = std::min<std::uint64_t>(offset, size);  // the file may have shrunk since it was asked for
  View made;
  made.bytes_ = content().subspan(start, std::min(length, size - start));
  made.served_from_ = from;
  made.holding_ = this;
  return made;
}

void HoldingList::push_front(Holding& holding) {
  holding.previous = nullptr;
  holding.next = head_;
  (head_ != nullptr ? head_->previous : tail_) = &holding;
  head_ = &holding;
  ++count_;
  bytes_ += holding.cost_bytes;
}

void HoldingList::remove(Holding& holding) {
  (holding.previous != nullptr ? holding.previous->next : head_) = holding.next;
  (holding.next != nullptr ? holding.next->previous : tail_) = holding.previous;
  holding.previous = holding.next = nullptr;
  --count_;
  bytes_ -= holding.cost_bytes;
}

RamShard::RamShard(std::size_t bucket_count) : buckets_(bucket_count), ghosts_(bucket_count) {}

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
  std::uint32_t& ghost = ghost_of(holding.key);
  const bool returned = ghost == ghost_mark(holding.key);
  if (returned) ghost = 0;
  counters_.admitted += 1;
  counters_.admitted_bytes += holding.size;
  move_to(holding, holding.keep ? Holding::Queue::kKept : returned ? Holding::Queue::kMain : Holding::Queue::kSmall);
}

void RamShard::touch(Holding& holding, bool keep) {
  holding.uses = static_cast<std::uint8_t>(std::min<int>(holding.uses + 1, kUsesMax));
  if (keep && !holding.keep) {
    holding.keep = true;
    holding.dropped = false;
    if (holding.queue != Holding::Queue::kNone) move_to(holding, Holding::Queue::kKept);
  }
}

// To the main queue: somebody wanted it more than what passes through the small one.
void RamShard::unkeep(Holding& holding) {
  holding.keep = false;
  if (holding.queue == Holding::Queue::kKept) move_to(holding, Holding::Queue::kMain);
}

void RamShard::unlist(Holding& holding) {
  HEADRACE_ASSERT(holding.listed);
  Holding** link = &bucket_of(holding.key);
  while (*link != &holding) link = &(*link)->bucket_next;
  *link = holding.bucket_next;
  holding.listed = false;
  move_to(holding, Holding::Queue::kNone);
}

Holding* RamShard::evict(bool kept_too) {
  const bool small_first = small_.bytes() * kSmallFraction > small_.bytes() + main_.bytes();
  Holding* victim = small_first ? pick_small() : pick_main();
  if (victim == nullptr) victim = small_first ? pick_main() : pick_small();
  if (victim == nullptr && kept_too) victim = pick_kept();
  if (victim == nullptr) return nullptr;
  if (victim->queue == Holding::Queue::kSmall) ghost_of(victim->key) = ghost_mark(victim->key);
  unlist(*victim);
  counters_.evictions += 1;
  return victim;
}

// Each pick passes every holding at most once per use that it has, so that a queue of pinned ones ends the search.
Holding* RamShard::pick_small() {
  for (std::size_t left = small_.count(); left > 0; --left) {
    Holding& oldest = *small_.back();
    if (oldest.pins == 0 && oldest.uses == 0) return &oldest;
    move_to(oldest, oldest.uses > 0 ? Holding::Queue::kMain : Holding::Queue::kSmall);
  }
  return nullptr;
}

Holding* RamShard::pick_main() {
  for (std::size_t left = main_.count() * (kUsesMax + 1); left > 0; --left) {
    Holding& oldest = *main_.back();
    if (oldest.pins == 0 && oldest.uses == 0) return &oldest;
    const std::uint8_t uses = oldest.uses;
    move_to(oldest, Holding::Queue::kMain);
    oldest.uses = static_cast<std::uint8_t>(uses > 0 ? uses - 1 : 0);
  }
  return nullptr;
}

Holding* RamShard::pick_kept() {
  for (std::size_t left = kept_.count(); left > 0; --left) {
    Holding& oldest = *kept_.back();
    if (oldest.pins == 0) return &oldest;
    move_to(oldest, Holding::Queue::kKept);
  }
  return nullptr;
}

std::size_t RamShard::count() const {
  return small_.count() + main_.count() + kept_.count();
}

HoldingList& RamShard::list_of(Holding::Queue queue) {
  return queue == Holding::Queue::kSmall ? small_ : queue == Holding::Queue::kMain ? main_ : kept_;
}

void RamShard::move_to(Holding& holding, Holding::Queue queue) {
  if (holding.queue != Holding::Queue::kNone) list_of(holding.queue).remove(holding);
  holding.queue = queue;
  holding.uses = 0;
  if (queue != Holding::Queue::kNone) list_of(queue).push_front(holding);
}

}  // namespace headrace::cache
