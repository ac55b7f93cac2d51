// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/making_room.h"

#include <optional>
#include <utility>

namespace headrace::fuse {
using cache::SampleIndex;
using io::MutexLock;

// Whether there was one.
bool MakingRoom::evict_ranges_for(std::uint64_t bytes) {
  for (bool any = false;; any = true) {
    const auto victim = plan_.use([bytes](PushPlan& plan) { return plan.next_range_victim(bytes); });
    if (!victim) return any;
    const cache::EntryId entry = parts_.catalog.sample_entry(victim->sample);
    kernel_.drop(parts_.inodes->of(entry), victim->range.offset, victim->range.length);
  }
}

bool MakingRoom::evict_for(std::uint64_t bytes) {
  for (bool any = evict_ranges_for(bytes);; any = true) {
    PageRange pages;  // none: all of the file
    const auto victim = plan_.use([&](PushPlan& plan) {
      const std::optional<SampleIndex> next = plan.next_victim(bytes);
      if (next && answers_ != nullptr) {
        pages = plan.record_pages().to_drop(*next);
        answers_->drop_beacon(*next);
      }
      return next;
    });
    if (!victim) return any;
    if (answers_ != nullptr && pages.length == 0) continue;
    kernel_.drop(parts_.inodes->of(parts_.entry_of(*victim)), pages.offset, pages.length);
  }
}

bool MakingRoom::make_for(SampleIndex sample) {
  const std::uint64_t bytes = plan_.use([sample](const PushPlan& plan) { return plan.pages().bytes_of(sample); });
  evict_for(bytes);
  while (!place(sample)) {  // another thread's sample may have taken the room
    if (!evict_for(bytes)) return false;
  }
  return true;
}

bool MakingRoom::place(SampleIndex sample) {
  bool is_stale = false;
  const bool is_placed = plan_.use([&](PushPlan& plan) {
    if (!plan.place(sample)) return false;
    is_stale = plan.take_stale(sample);
    return true;
  });
  if (is_placed && is_stale && answers_ == nullptr)
    kernel_.make_known(parts_.catalog.sample_entry(sample));  // a store of a range needs no attributes
  return is_placed;
}

void MakingRoom::share_budget() {
  MutexLock sharing(share_mutex_);
  const std::uint64_t limit = plan_.use([](const PushPlan& plan) { return plan.copies_limit(); });
  if (std::exchange(copies_limit_, limit) == limit) return;
  drop_copies();
  parts_.store.set_ram_bytes(store_ram_bytes_ + copies_limit_);
}

void MakingRoom::drop_copies() {
  while (const auto sample = plan_.use([](PushPlan& plan) { return plan.next_to_drop(); }))
    parts_.store.drop(parts_.catalog.sample_entry(*sample));
}

}  // namespace headrace::fuse
