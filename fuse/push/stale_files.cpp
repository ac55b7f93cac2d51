// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/stale_files.h"

namespace headrace::fuse {
using cache::EntryId;
using io::MutexLock;

void StaleFiles::add(std::span<const EntryId> entries) {
  MutexLock lock(mutex_);
  ++changes_;
  for (const EntryId entry : entries) {
    changed_at_[entry] = changes_;
    to_forget_.push_back(entry);
  }
}

void StaleFiles::add_for_kernel(EntryId entry) {
  MutexLock lock(mutex_);
  to_forget_.push_back(entry);
}

std::uint64_t StaleFiles::changes() const {
  MutexLock lock(mutex_);
  return changes_;
}

bool StaleFiles::has_changed(EntryId entry, std::uint64_t since) const {
  MutexLock lock(mutex_);
  return is_changed(entry, since);
}

bool StaleFiles::is_changed(EntryId entry, std::uint64_t since) const {
  const auto found = changed_at_.find(entry);
  return found != changed_at_.end() && found->second > since;
}

bool StaleFiles::must_forget() const {
  MutexLock lock(mutex_);
  return !forgets_ && !to_forget_.empty();
}

void StaleFiles::forget() {
  MutexLock lock(mutex_);
  if (forgets_) return;
  while (!stopped_ && !to_forget_.empty()) {
    std::vector<EntryId> entries;
    entries.swap(to_forget_);
    forgets_ = true;
    lock.unlock();
    kernel_.forget(entries);
    lock.lock();
    forgets_ = false;
    forgot_.notify_all();
  }
}

bool StaleFiles::wait_until_forgotten(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!stopped_ && (forgets_ || !to_forget_.empty())) {
    if (!forgot_.wait_until(lock, deadline)) break;
  }
  return !forgets_ && to_forget_.empty();
}

void StaleFiles::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  forgot_.notify_all();
}

}  // namespace headrace::fuse
