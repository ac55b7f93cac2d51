// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/inodes.h"

namespace headrace::fuse {
using cache::EntryId;
using io::MutexLock;

Inodes::Present Inodes::present(EntryId entry) const {
  if (any_.load(std::memory_order_acquire)) {
    MutexLock lock(mutex_);
    if (const auto found = changed_.find(entry); found != changed_.end()) return found->second;
  }
  return {.version = 0, .identity = catalog_.identity(entry)};
}

std::uint64_t Inodes::of(EntryId entry) const {
  return first_inode_of(entry) + (std::uint64_t{present(entry).version} << kVersionShift);
}

bool Inodes::is_current(std::uint64_t inode) const {
  return entry_of(inode) < catalog_.entry_count() && of(entry_of(inode)) == inode;
}

bool Inodes::stands_for(std::uint64_t inode, const cache::Identity& identity) const {
  if (entry_of(inode) >= catalog_.entry_count()) return false;
  const Present now = present(entry_of(inode));
  return now.version == inode >> kVersionShift && now.identity == identity;
}

void Inodes::set(EntryId entry, std::uint32_t version, const cache::Identity& identity) {
  MutexLock lock(mutex_);
  changed_[entry] = {.version = version, .identity = identity};
  any_.store(true, std::memory_order_release);
}

}  // namespace headrace::fuse
