// SPDX-License-Identifier: Apache-2.0
// The numbers by which the kernel knows the entries of a catalog. The low half is the entry plus one, until the mount
// goes on with another catalog: then it stays what it was for each name, and names that are new have new ones. The high
// half counts the versions of the file that the mount has shown: whoever has opened a version goes on with its number,
// and must not be given bytes of another one.
//
//   Inodes inodes(catalog);
//   inodes.of(entry);                                  // what the kernel is told
//   inodes.entry_of(inode);                            // kNoEntry: nothing has this number any more
//   if (!inodes.stands_for(inode, identity)) ...;      // ESTALE
//   inodes.set(entry, number, identity);               // another version
//
// Thread-safety: every function from any thread. Ownership: the catalog outlives it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

inline constexpr int kVersionShift = 32;

// The low half of an inode number.
using NameNumber = std::uint32_t;
[[nodiscard]] constexpr NameNumber name_number_of(std::uint64_t inode) {
  return static_cast<NameNumber>(inode);
}
[[nodiscard]] constexpr std::uint32_t version_of(std::uint64_t inode) {
  return static_cast<std::uint32_t>(inode >> kVersionShift);
}

class Inodes {
 public:
  explicit Inodes(const cache::Catalog& catalog) : catalog_(catalog) {}
  // `numbers`: of the entries, each once.
  Inodes(const cache::Catalog& catalog, std::span<const NameNumber> numbers);

  [[nodiscard]] std::uint64_t of(cache::EntryId entry) const;
  [[nodiscard]] NameNumber name_number(cache::EntryId entry) const {
    return numbers_.empty() ? entry + 1 : numbers_[entry];
  }
  // Of whichever version. kNoEntry: none.
  [[nodiscard]] cache::EntryId entry_of(std::uint64_t inode) const;
  // Whether the number is given out now.
  [[nodiscard]] bool is_current(std::uint64_t inode) const;
  // Whether bytes of this version of the file may be shown under the number.
  [[nodiscard]] bool stands_for(std::uint64_t inode, const cache::Identity& identity) const;

  // The file is this version now, and its number has `version` in the high half.
  void set(cache::EntryId entry, std::uint32_t version, const cache::Identity& identity);

 private:
  struct Present {
    std::uint32_t version = 0;
    cache::Identity identity;
  };
  [[nodiscard]] Present present(cache::EntryId entry) const;

  const cache::Catalog& catalog_;
  const std::vector<NameNumber> numbers_;      // by entry; empty: the entry plus one
  const std::vector<cache::EntryId> entries_;  // by number, likewise
  std::atomic<bool> any_ = false;              // spares the lock as long as nothing has changed
  mutable io::Mutex mutex_;
  std::unordered_map<cache::EntryId, Present> changed_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse
