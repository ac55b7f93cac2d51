// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/changed_files.h"

#include <algorithm>
#include <atomic>

#include "headrace/cache/read_rights.h"

namespace headrace::fuse {
namespace {

// What was written before it is there for whoever sees the new number.
template <typename Number>
void publish(Number& number, Number value) {
  std::atomic_ref(number).store(value, std::memory_order_release);
}

}  // namespace

ChangedFiles::ChangedFiles(const cache::Catalog& catalog, std::span<ChangedFile> records, std::uint64_t& count)
    : catalog_(catalog), records_(records), count_(count) {
  for (std::size_t i = 0; i < std::min<std::uint64_t>(count_, records_.size()); ++i) record_of_[records_[i].entry] = i;
}

ChangedFile::Version ChangedFiles::present(cache::EntryId entry) const {
  const auto found = record_of_.find(entry);
  return found != record_of_.end() ? records_[found->second].versions[records_[found->second].current]
                                   : ChangedFile::Version{};
}

void ChangedFiles::write(cache::EntryId entry, const ChangedFile::Version& version) {
  const auto [found, is_new] = record_of_.try_emplace(entry, record_of_.size());
  ChangedFile& record = records_[found->second];
  const std::uint32_t next = is_new ? 0 : 1 - record.current;
  record.versions[next] = version;
  if (is_new) record.entry = entry;
  publish(record.current, next);
  if (is_new) publish(count_, std::uint64_t{record_of_.size()});
}

// The record comes first: a successor must not give out the same number for another version.
void ChangedFiles::note(cache::EntryId entry, const cache::Identity& identity, Inodes& inodes) {
  ChangedFile::Version version = present(entry);
  const cache::Identity before = version.has_identity ? version.identity : catalog_.identity(entry);
  const bool is_another = catalog_.is_file(entry) && (version.vanished || identity != before);
  if (is_another) ++version.number;
  version.identity = identity;
  version.has_identity = true;
  version.vanished = false;
  write(entry, version);
  inodes.set(entry, version.number, identity);
}

void ChangedFiles::note_vanished(cache::EntryId entry) {
  ChangedFile::Version version = present(entry);
  version.identity = {};
  version.has_identity = false;
  version.vanished = true;
  write(entry, version);
}

void ChangedFiles::begin_with(cache::EntryId entry, std::uint32_t number, const cache::Identity& identity) {
  write(entry, {.identity = identity, .has_identity = true, .number = number});
}

void ChangedFiles::note_attributes(cache::EntryId entry, const cache::AttributeClass& attributes, Inodes& inodes) {
  ChangedFile::Version version = present(entry);
  const cache::AttributeClass before = version.has_attributes ? version.attributes : catalog_.attributes(entry);
  if (!cache::lets_in_all(attributes, before)) inodes.let_nobody_go_on(entry);
  version.attributes = attributes;
  version.has_attributes = true;
  write(entry, version);
}

std::vector<cache::EntryId> ChangedFiles::entries() const {
  std::vector<cache::EntryId> entries;
  entries.reserve(record_of_.size());
  for (const auto& [entry, ignored] : record_of_) entries.push_back(entry);
  return entries;
}

void ChangedFiles::tell(cache::Store& store, Inodes& inodes) const {
  for (const auto& [entry, index] : record_of_) {
    const ChangedFile::Version& now = records_[index].versions[records_[index].current];
    if (now.has_attributes) store.set_attributes(entry, now.attributes);
    inodes.set(entry, now.number, now.has_identity ? now.identity : catalog_.identity(entry));
    if (now.has_identity) store.set_identity(entry, now.identity);
    if (now.vanished && store.catalog().is_file(entry)) store.set_vanished(entry);
  }
}

}  // namespace headrace::fuse
