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

void ChangedFiles::note(cache::EntryId entry, const std::optional<cache::Identity>& identity) {
  const auto [found, is_new] = record_of_.try_emplace(entry, record_of_.size());
  ChangedFile& record = records_[found->second];
  const std::uint32_t next = is_new ? 0 : 1 - record.current;
  record.versions[next] = {.identity = identity.value_or(cache::Identity{}), .vanished = !identity};
  if (is_new) record.entry = entry;
  publish(record.current, next);
  if (is_new) publish(count_, std::uint64_t{record_of_.size()});
}

void ChangedFiles::tell(cache::Store& store) const {
  for (const auto& [entry, index] : record_of_) {
    const ChangedFile& record = records_[index];
    const ChangedFile::Version& now = record.versions[record.current];
    if (!now.vanished) {
      store.set_identity(entry, now.identity);
    } else if (store.catalog().is_file(entry)) {
      store.set_vanished(entry);
    }
  }
}

}  // namespace headrace::fuse
