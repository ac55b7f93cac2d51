// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/look_ahead.h"

#include <algorithm>
#include <utility>

namespace headrace::fuse {

namespace {

// A READ after a lookup earns one, a lookup that nothing came of costs four: below four reads in five it is given up.
// 16 in a row begin it; beyond 32 more says nothing new.
constexpr int kTrustToFetch = 16;
constexpr int kTrustMost = 32;
constexpr int kCostOfUnread = 4;

}  // namespace

bool LookAhead::on_lookup(cache::EntryId entry) {
  cache::View dropped;  // let go of without the mutex
  io::MutexLock lock(mutex_);
  Slot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % kSlotCount;
  if (slot.state == Slot::State::kLookedUp) trust_ = std::max(0, trust_ - kCostOfUnread);
  dropped = std::exchange(slot.view, {});
  slot.state = Slot::State::kLookedUp;
  slot.entry = entry;
  return trust_ >= kTrustToFetch;
}

bool LookAhead::waits(cache::EntryId entry) {
  io::MutexLock lock(mutex_);
  return find(entry, Slot::State::kLookedUp) != nullptr;
}

// A READ that is about to ask the store may find nothing under way any more: it needs the view, too.
void LookAhead::keep(cache::EntryId entry, cache::View view) {
  io::MutexLock lock(mutex_);
  Slot* slot = find(entry, Slot::State::kLookedUp);
  if (slot == nullptr) slot = find(entry, Slot::State::kRead);
  if (slot != nullptr) std::swap(slot->view, view);
}

void LookAhead::on_read(cache::EntryId entry) {
  io::MutexLock lock(mutex_);
  Slot* const slot = find(entry, Slot::State::kLookedUp);
  if (slot == nullptr) return;
  slot->state = Slot::State::kRead;
  trust_ = std::min(kTrustMost, trust_ + 1);
}

cache::View LookAhead::end_read(cache::EntryId entry) {
  io::MutexLock lock(mutex_);
  Slot* const slot = find(entry, Slot::State::kRead);
  if (slot == nullptr) return {};
  slot->state = Slot::State::kFree;
  return std::exchange(slot->view, {});
}

LookAhead::Slot* LookAhead::find(cache::EntryId entry, Slot::State state) {
  const auto slot =
      std::ranges::find_if(slots_, [&](const Slot& each) { return each.state == state && each.entry == entry; });
  return slot != slots_.end() ? &*slot : nullptr;
}

}  // namespace headrace::fuse
