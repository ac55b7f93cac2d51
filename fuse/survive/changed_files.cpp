// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/changed_files.h"

#include <algorithm>
#include <atomic>

namespace headrace::fuse {
namespace {

// What was written before it is there for whoever sees the new number.
template <typename Number>
void publish(Number& number, Number value) {
  std::atomic_ref(number).store(value, std::memory_order_release);
}

}  // namespace

ChangedFiles::ChangedFiles(std::span<ChangedFile> records, std::uint64_t& count) : records_(records), count_(count) {
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

void ChangedFiles::note(cache::EntryId entry, const std::optional<cache::Identity>& identity) {
  ChangedFile::Version version = present(entry);
  version.identity = identity.value_or(cache::Identity{});
  version.has_identity = identity.has_value();
  version.vanished = !identity;
  write(entry, version);
}

void ChangedFiles::note_attributes(cache::EntryId entry, const cache::AttributeClass& attributes) {
  ChangedFile::Version version = present(entry);
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

void ChangedFiles::tell(cache::Store& store) const {
  for (const auto& [entry, index] : record_of_) {
    const ChangedFile::Version& now = records_[index].versions[records_[index].current];
    if (now.has_attributes) store.set_attributes(entry, now.attributes);
    if (now.has_identity) store.set_identity(entry, now.identity);
    if (now.vanished && store.catalog().is_file(entry)) store.set_vanished(entry);
  }
}

}  // namespace headrace::fuse
