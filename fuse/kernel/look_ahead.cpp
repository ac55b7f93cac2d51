// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/look_ahead.h"

#include <algorithm>
#include <utility>

namespace headrace::fuse {
namespace {

// A READ after a look-up earns one, a look-up that nothing came of costs four: below four reads in five it is given up.
// 16 in a row begin it; beyond 32 more says nothing new.
constexpr int kTrustToFetch = 16;
constexpr int kTrustMost = 32;
constexpr int kCostOfUnread = 4;

}  // namespace

bool LookAhead::on_lookup(cache::EntryId entry) {
  io::MutexLock lock(mutex_);
  if (std::exchange(unread_[next_], entry) != cache::kNoEntry) trust_ = std::max(0, trust_ - kCostOfUnread);
  next_ = (next_ + 1) % kUnreadMax;
  return trust_ >= kTrustToFetch;
}

void LookAhead::on_read(cache::EntryId entry) {
  io::MutexLock lock(mutex_);
  const auto found = std::ranges::find(unread_, entry);
  if (found == unread_.end()) return;
  *found = cache::kNoEntry;
  trust_ = std::min(kTrustMost, trust_ + 1);
}

}  // namespace headrace::fuse
