// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/mover.h"

#include <algorithm>

namespace headrace::cache {

using io::MutexLock;

void Mover::insert(std::unique_ptr<UnderWay> begun) {
  Bucket& bucket = bucket_of(begun->file_);
  MutexLock lock(bucket.mutex);
  begun->next_ = std::move(bucket.first);
  if (begun->next_) begun->next_->owner_ = &begun->next_;
  begun->owner_ = &bucket.first;
  bucket.first = std::move(begun);
}

std::unique_ptr<UnderWay> Mover::take(UnderWay& ending) {
  MutexLock lock(bucket_of(ending.file_).mutex);
  std::unique_ptr<UnderWay>& owner = *ending.owner_;
  std::unique_ptr<UnderWay> taken = std::move(owner);
  owner = std::move(taken->next_);
  if (owner) owner->owner_ = &owner;
  return taken;
}

std::vector<RamTier::Wanted> Mover::want(EntryId entry) {
  std::vector<RamTier::Wanted> wanted;
  Bucket& bucket = bucket_of(entry);
  MutexLock lock(bucket.mutex);
  for (UnderWay* each = bucket.first.get(); each != nullptr; each = each->next_.get()) {
    if (each->file_ != entry) continue;
    if (const RamTier::Wanted found = each->want(); found.is_first) wanted.push_back(found);
  }
  std::ranges::reverse(wanted);
  return wanted;
}

}  // namespace headrace::cache
