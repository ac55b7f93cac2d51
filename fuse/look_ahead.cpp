// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/internal/look_ahead.h"

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
  if (slot.waits) trust_ = std::max(0, trust_ - kCostOfUnread);
  dropped = std::exchange(slot.view, {});
  slot.waits = true;
  slot.entry = entry;
  return trust_ >= kTrustToFetch;
}

void LookAhead::keep(cache::EntryId entry, cache::View view) {
  io::MutexLock lock(mutex_);
  for (Slot& slot : slots_) {
    if (slot.waits && slot.entry == entry) std::swap(slot.view, view);
  }
}

cache::View LookAhead::on_read(cache::EntryId entry) {
  io::MutexLock lock(mutex_);
  for (Slot& slot : slots_) {
    if (!slot.waits || slot.entry != entry) continue;
    slot.waits = false;
    trust_ = std::min(kTrustMost, trust_ + 1);
    return std::exchange(slot.view, {});
  }
  return {};
}

}  // namespace headrace::fuse
