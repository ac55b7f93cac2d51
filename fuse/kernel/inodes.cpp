// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/inodes.h"

#include <algorithm>

#include <xxhash.h>

namespace headrace::fuse {
using cache::EntryId;
using io::MutexLock;

namespace {

constexpr std::uint64_t kNothing = 0;
constexpr std::uint64_t kUnknown = 1;  // something, whose bytes nobody can compare

std::uint64_t hash_of(std::span<const std::byte> whole) {
  return whole.empty() ? kUnknown : std::max(XXH3_64bits(whole.data(), whole.size()), kUnknown + 1);
}

// Nothing can be added to what is known.
bool is_noted(std::uint64_t given, bool is_whole) {
  return given > (is_whole ? kUnknown : kNothing);
}

std::vector<EntryId> by_number(std::span<const NameNumber> numbers) {
  std::vector<EntryId> entries;
  if (!numbers.empty()) entries.resize(std::size_t{std::ranges::max(numbers)} + 1, cache::kNoEntry);
  for (EntryId entry = 0; entry < numbers.size(); ++entry) entries[numbers[entry]] = entry;
  return entries;
}

}  // namespace

Inodes::Inodes(const cache::Catalog& catalog, std::span<const NameNumber> numbers)
    : catalog_(catalog),
      numbers_(numbers.begin(), numbers.end()),
      entries_(by_number(numbers)),
      given_(catalog.entry_count()) {}

EntryId Inodes::entry_of(std::uint64_t inode) const {
  const NameNumber number = name_number_of(inode);
  if (!numbers_.empty()) return number < entries_.size() ? entries_[number] : cache::kNoEntry;
  return number > 0 && number <= catalog_.entry_count() ? number - 1 : cache::kNoEntry;
}

Inodes::Present Inodes::present(EntryId entry) const {
  if (any_.load(std::memory_order_acquire)) {
    MutexLock lock(mutex_);
    return known_now(entry);
  }
  return {.version = 0, .identity = catalog_.identity(entry)};
}

Inodes::Present Inodes::known_now(EntryId entry) const {
  const auto found = changed_.find(entry);
  return found != changed_.end() ? found->second : Present{.version = 0, .identity = catalog_.identity(entry)};
}

Inodes::Past* Inodes::past(EntryId entry, std::uint32_t version) const {
  const auto found = past_.find(entry);
  if (found == past_.end()) return nullptr;
  const auto number = std::ranges::find(found->second, version, &Past::version);
  return number != found->second.end() ? &*number : nullptr;
}

std::uint64_t Inodes::of(EntryId entry) const {
  return name_number(entry) + (std::uint64_t{present(entry).version} << kVersionShift);
}

bool Inodes::is_current(std::uint64_t inode) const {
  const EntryId entry = entry_of(inode);
  return entry != cache::kNoEntry && of(entry) == inode;
}

std::optional<cache::Identity> Inodes::version_of_file(std::uint64_t inode) const {
  const EntryId entry = entry_of(inode);
  if (entry == cache::kNoEntry) return std::nullopt;
  const Present now = present(entry);
  if (now.version == version_of(inode)) return now.identity;
  MutexLock lock(mutex_);
  const Past* const before = past(entry, version_of(inode));
  return before != nullptr ? std::optional(before->identity) : std::nullopt;
}

// As mostly: the same went out before, so that nothing need be hashed. What was given is looked at first: as long as
// nothing has changed after that, it went out under version 0.
bool Inodes::is_given(std::uint64_t inode, const cache::Identity& identity, bool is_whole) const {
  const EntryId entry = entry_of(inode);
  if (!is_noted(given_[entry].load(), is_whole)) return false;
  if (!any_.load()) return version_of(inode) == 0 && catalog_.identity(entry) == identity;
  MutexLock lock(mutex_);
  const Present now = known_now(entry);
  return now.version == version_of(inode) && now.identity == identity && is_noted(given_[entry].load(), is_whole);
}

bool Inodes::give(std::uint64_t inode, const cache::Identity& identity, std::span<const std::byte> whole) {
  const EntryId entry = entry_of(inode);
  if (entry == cache::kNoEntry) return false;
  if (is_given(inode, identity, !whole.empty())) return true;
  const std::uint64_t hash = hash_of(whole);
  MutexLock lock(mutex_);
  const Present now = known_now(entry);
  if (now.version == version_of(inode)) {
    std::atomic<std::uint64_t>& given = given_[entry];
    if (now.identity != identity) return hash > kUnknown && given.load() == hash;
    if (!is_noted(given.load(), !whole.empty())) given.store(hash);
    return true;
  }
  Past* const before = past(entry, version_of(inode));
  if (before == nullptr) return false;
  if (before->identity != identity) {
    const bool is_same = before->given == kNothing || (hash > kUnknown && before->given == hash);
    if (!is_same || before->identity.size_bytes != identity.size_bytes) return false;
    before->identity = identity;
  }
  if (!is_noted(before->given, !whole.empty())) before->given = hash;
  return true;
}

void Inodes::let_nobody_go_on(EntryId entry) {
  MutexLock lock(mutex_);
  any_.store(true);
  Present now = known_now(entry);
  now.ends = true;
  changed_[entry] = now;
  past_.erase(entry);
}

void Inodes::note_given_before() {
  for (std::atomic<std::uint64_t>& given : given_) given.store(kUnknown);
}

void Inodes::set(EntryId entry, std::uint32_t version, const cache::Identity& identity) {
  MutexLock lock(mutex_);
  const Present before = known_now(entry);
  any_.store(true, std::memory_order_release);
  if (version != before.version && before.ends) {
    given_[entry].store(kNothing);
  } else if (version != before.version) {
    std::vector<Past>& numbers = past_[entry];
    if (numbers.size() == kPastMax) numbers.erase(numbers.begin());
    numbers.push_back(
        {.version = before.version, .identity = before.identity, .given = given_[entry].exchange(kNothing)});
  } else if (before.identity != identity) {
    given_[entry].store(kUnknown);
  }
  changed_[entry] = {.version = version, .identity = identity};
}

}  // namespace headrace::fuse
