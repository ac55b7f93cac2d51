// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/inodes.h"

#include <algorithm>

namespace headrace::fuse {
using cache::EntryId;
using io::MutexLock;

namespace {

std::vector<EntryId> by_number(std::span<const NameNumber> numbers) {
  std::vector<EntryId> entries;
  if (!numbers.empty()) entries.resize(std::size_t{std::ranges::max(numbers)} + 1, cache::kNoEntry);
  for (EntryId entry = 0; entry < numbers.size(); ++entry) entries[numbers[entry]] = entry;
  return entries;
}

}  // namespace

Inodes::Inodes(const cache::Catalog& catalog, std::span<const NameNumber> numbers)
    : catalog_(catalog), numbers_(numbers.begin(), numbers.end()), entries_(by_number(numbers)) {}

EntryId Inodes::entry_of(std::uint64_t inode) const {
  const NameNumber number = name_number_of(inode);
  if (!numbers_.empty()) return number < entries_.size() ? entries_[number] : cache::kNoEntry;
  return number > 0 && number <= catalog_.entry_count() ? number - 1 : cache::kNoEntry;
}

Inodes::Present Inodes::present(EntryId entry) const {
  if (any_.load(std::memory_order_acquire)) {
    MutexLock lock(mutex_);
    if (const auto found = changed_.find(entry); found != changed_.end()) return found->second;
  }
  return {.version = 0, .identity = catalog_.identity(entry)};
}

std::uint64_t Inodes::of(EntryId entry) const {
  return name_number(entry) + (std::uint64_t{present(entry).version} << kVersionShift);
}

bool Inodes::is_current(std::uint64_t inode) const {
  const EntryId entry = entry_of(inode);
  return entry != cache::kNoEntry && of(entry) == inode;
}

bool Inodes::stands_for(std::uint64_t inode, const cache::Identity& identity) const {
  const EntryId entry = entry_of(inode);
  if (entry == cache::kNoEntry) return false;
  const Present now = present(entry);
  return now.version == version_of(inode) && now.identity == identity;
}

void Inodes::set(EntryId entry, std::uint32_t version, const cache::Identity& identity) {
  MutexLock lock(mutex_);
  changed_[entry] = {.version = version, .identity = identity};
  any_.store(true, std::memory_order_release);
}

}  // namespace headrace::fuse
