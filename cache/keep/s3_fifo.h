// SPDX-License-Identifier: Apache-2.0
// S3-FIFO ("FIFO queues are all you need for cache eviction", Yang et al., SOSP 2023, algorithm 1), with bytes for
// objects. This one piece of code decides what goes from the RAM tier, and what the simulator says about "s3-fifo".
//
// A newcomer enters the small queue. When it reaches the end of that queue it moves on to the main queue if it was read
// again in the meantime, else it is evicted, and a ghost table remembers it for a while. Whoever comes back while it is
// remembered enters the main queue at once.
//
//   struct Items {                                       // and what item_queue.h asks for
//     S3FifoMark& mark(Item item);
//     bool may_go(Item item) const;                      // false: pinned
//     std::uint64_t hash(Item item) const;
//   };
//   S3Fifo<Items> fifo(ghost_slots_for(budget_bytes));
//   fifo.insert(items, item);
//   fifo.touch(items.mark(item));                        // it was read again
//   Item gone = fifo.evict(items);                       // kNone: every item is pinned
//
// Cost: nothing is allocated after construction; insert, touch and remove are O(1), evict is O(1) on average where few
// items are pinned. Thread-safety: none; one owner.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/cache/keep/item_queue.h"

namespace headrace::cache {

enum class S3FifoQueue : std::uint8_t { kNone, kSmall, kMain };

struct S3FifoMark {
  S3FifoQueue queue = S3FifoQueue::kNone;
  std::uint8_t uses = 0;  // since it entered its queue, at most kUsesMax
};

// What was evicted lately: 32 bits of each hash, and when. A newer ghost overwrites an older one in the same slot.
// As in the paper a ghost counts for as many evictions as the main queue has items. Without this bound, in a table of
// more slots than items, a Zipf trace of exponent 0.6 hits 0.31 instead of 0.33 with room for a tenth of the samples.
class GhostTable {
 public:
  explicit GhostTable(std::size_t slots) : slots_(slots) {}

  void remember(std::uint64_t hash) { slots_[hash % slots_.size()] = {name_of(hash), ++now_}; }
  // Whether it is one of the last `count` that were remembered. It no longer is afterwards.
  [[nodiscard]] bool take(std::uint64_t hash, std::size_t count) {
    Ghost& ghost = slots_[hash % slots_.size()];
    if (ghost.name != name_of(hash) || now_ - ghost.when >= count) return false;
    ghost = {};
    return true;
  }

 private:
  struct Ghost {
    std::uint32_t name = 0;  // 0: an empty slot
    std::uint32_t when = 0;  // counted in ghosts; that it begins anew after 2^32 makes a wrong guess at worst
  };
  [[nodiscard]] static std::uint32_t name_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32) | 1U; }
  std::vector<Ghost> slots_;
  std::uint32_t now_ = 0;
};

// Slots for the ghosts of a cache of so many bytes: 8 bytes for each 32 KiB, thus three slots for each photograph that
// is held. At least 16 Ki for budgets that say nothing; at most 4 Mi, since they are allocated at once (32 MiB).
[[nodiscard]] inline std::size_t ghost_slots_for(std::uint64_t budget_bytes) {
  return std::bit_ceil(std::clamp<std::uint64_t>(budget_bytes >> 15, 16U << 10, 4U << 20));
}

template <typename Items>
class S3Fifo {
 public:
  using Item = typename Items::Item;

  explicit S3Fifo(std::size_t ghost_slots) : ghosts_(ghost_slots) {}

  void insert(Items& items, Item item) {
    put(items, item, ghosts_.take(items.hash(item), main_.count()) ? S3FifoQueue::kMain : S3FifoQueue::kSmall);
  }
  // For an item that has shown its worth elsewhere.
  void insert_in_main(Items& items, Item item) { put(items, item, S3FifoQueue::kMain); }

  static void touch(S3FifoMark& mark) { mark.uses = std::min<std::uint8_t>(mark.uses + 1, kUsesMax); }

  void remove(Items& items, Item item) {
    queue_of(items.mark(item)).remove(items, item);
    items.mark(item) = {};
  }

  // Takes the item that is worth least out of its queue.
  [[nodiscard]] Item evict(Items& items) {
    const bool small_first = small_.bytes() * kSmallPart > small_.bytes() + main_.bytes();
    Item victim = small_first ? oldest_of_small(items) : oldest_of_main(items);
    if (victim == Items::kNone) victim = small_first ? oldest_of_main(items) : oldest_of_small(items);
    if (victim == Items::kNone) return victim;
    if (items.mark(victim).queue == S3FifoQueue::kSmall) ghosts_.remember(items.hash(victim));
    remove(items, victim);
    return victim;
  }

  [[nodiscard]] std::size_t count() const { return small_.count() + main_.count(); }

 private:
  static constexpr std::uint8_t kUsesMax = 3;      // two bits, as in the paper
  static constexpr std::uint64_t kSmallPart = 10;  // the small queue's share is one part in ten, as in the paper
  // To move on from the small queue. The paper takes 2 where it simulates. Hits with 1 and with 2, measured 2026-11-22
  // over 20 000 samples and 200 000 reads, with room for a tenth, a third and a half: Zipf of exponent 0.8 0.535 and
  // 0.534, 0.725 and 0.723, 0.811 and 0.808; the same with a scan in between 0.368 and 0.358, 0.536 and 0.530, 0.631
  // and 0.630; shuffled epochs 0.03 and 0.01, 0.17 and 0.07, 0.18 and 0.19.
  static constexpr std::uint8_t kUsesToMoveOn = 1;

  [[nodiscard]] ItemQueue<Items>& queue_of(const S3FifoMark& mark) {
    return mark.queue == S3FifoQueue::kSmall ? small_ : main_;
  }

  void put(Items& items, Item item, S3FifoQueue queue) {
    items.mark(item) = {queue, 0};
    queue_of(items.mark(item)).push_front(items, item);
  }

  // Each search passes an item at most once per use that it has, so that a queue of pinned items ends the search.
  [[nodiscard]] Item oldest_of_small(Items& items) {
    for (std::size_t left = small_.count(); left > 0; --left) {
      const Item oldest = small_.back();
      if (items.mark(oldest).uses >= kUsesToMoveOn) {
        small_.remove(items, oldest);
        put(items, oldest, S3FifoQueue::kMain);
      } else if (items.may_go(oldest)) {
        return oldest;
      } else {
        small_.move_to_front(items, oldest);
      }
    }
    return Items::kNone;
  }

  [[nodiscard]] Item oldest_of_main(Items& items) {
    for (std::size_t left = main_.count() * (kUsesMax + 1); left > 0; --left) {
      const Item oldest = main_.back();
      std::uint8_t& uses = items.mark(oldest).uses;
      if (uses == 0 && items.may_go(oldest)) return oldest;
      if (uses > 0) --uses;
      main_.move_to_front(items, oldest);
    }
    return Items::kNone;
  }

  ItemQueue<Items> small_;
  ItemQueue<Items> main_;
  GhostTable ghosts_;
};

}  // namespace headrace::cache
