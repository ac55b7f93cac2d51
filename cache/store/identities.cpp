// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/identities.h"

#include <cstddef>

#include <fmt/format.h>

#include "headrace/cache/chunk.h"

namespace headrace::cache {

using io::ErrorCode;
using io::MutexLock;

namespace {

constexpr std::size_t kWordBits = 64;

std::uint64_t bit_of(EntryId entry) {
  return std::uint64_t{1} << entry % kWordBits;
}

}  // namespace

Identities::Identities(const Catalog& catalog)
    : catalog_(catalog),
      all_confirmed_(!catalog.was_saved()),
      confirmed_(catalog.was_saved() ? catalog.entry_count() / kWordBits + 1 : 0) {}

bool Identities::is_confirmed(EntryId entry) const {
  if (all_confirmed_.load(std::memory_order_acquire)) return true;
  return (confirmed_[entry / kWordBits].load(std::memory_order_relaxed) & bit_of(entry)) != 0;
}

void Identities::confirm(EntryId entry) {
  if (!is_confirmed(entry)) confirmed_[entry / kWordBits].fetch_or(bit_of(entry), std::memory_order_relaxed);
}

Result<Identity> Identities::of(EntryId entry) const {
  if (entry >= catalog_.entry_count()) {
    return io::make_error(ErrorCode::kInvalidArgument, fmt::format("entry {} is not in the catalog", entry));
  }
  if (any_changed_.load(std::memory_order_acquire)) {
    MutexLock lock(mutex_);
    const auto found = changed_.find(entry);
    const bool changed = found != changed_.end();
    if (changed && found->second) return *found->second;
    lock.unlock();
    if (changed) {
      return io::make_error(ErrorCode::kNotFound, fmt::format("read {}: gone from the source", catalog_.path(entry)));
    }
  }
  return catalog_.identity(entry);
}

Result<Identity> Identities::of_file(EntryId entry) const {
  if (entry < catalog_.entry_count() && !catalog_.is_file(entry)) {
    return io::make_error(ErrorCode::kInvalidArgument, fmt::format("read: entry {} is not a file", entry));
  }
  return of(entry);
}

std::uint32_t Identities::chunks_of(EntryId entry) const {
  const Result<Identity> identity = of_file(entry);
  return identity ? chunk_count(identity->size_bytes) : 1;
}

bool Identities::set(EntryId entry, const std::optional<Identity>& identity) {
  MutexLock lock(mutex_);
  const auto [known, is_new] = changed_.try_emplace(entry, catalog_.identity(entry));
  if (known->second == identity) return false;
  known->second = identity;
  any_changed_.store(true, std::memory_order_release);
  return true;
}

CatalogChanges Identities::changes() const {
  CatalogChanges changes;
  MutexLock lock(mutex_);
  for (const auto& [entry, identity] : changed_) {
    if (!identity) {
      changes.vanished.push_back(entry);
    } else if (*identity != catalog_.identity(entry)) {
      changes.changed.push_back({entry, *identity});
    }
  }
  for (const auto& [entry, attributes] : attributes_) {
    if (attributes != catalog_.attributes(entry)) changes.attributes.push_back({entry, attributes});
  }
  return changes;
}

AttributeClass Identities::attributes(EntryId entry) const {
  if (any_changed_.load(std::memory_order_acquire)) {
    MutexLock lock(mutex_);
    if (const auto found = attributes_.find(entry); found != attributes_.end()) return found->second;
  }
  return catalog_.attributes(entry);
}

bool Identities::set_attributes(EntryId entry, const AttributeClass& attributes) {
  MutexLock lock(mutex_);
  const auto [known, is_new] = attributes_.try_emplace(entry, catalog_.attributes(entry));
  if (known->second == attributes) return false;
  known->second = attributes;
  any_changed_.store(true, std::memory_order_release);
  return true;
}

}  // namespace headrace::cache
