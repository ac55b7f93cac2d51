// SPDX-License-Identifier: Apache-2.0
// The numbers by which the kernel knows the entries of a catalog. The low half is the entry plus one, until the mount
// goes on with another catalog: then it stays what it was for each name, and names that are new have new ones. The high
// half counts the versions of the file that the mount has shown: whoever has opened a version goes on with its number,
// and must not be given bytes of another one.
//
//   Inodes inodes(catalog);
//   inodes.of(entry);                                  // what the kernel is told
//   inodes.entry_of(inode);                            // kNoEntry: nothing has this number any more
//   if (!inodes.give(inode, identity, bytes)) ...;     // ESTALE
//   inodes.set(entry, number, identity);               // another version
//
// Other times or another mode make another version, since nobody knows the bytes yet when these are seen. But a number
// stands for bytes. Whoever opened a file before a link was made, or a mode changed, goes on under the old number:
// READs bring the bytes as they are now, and they go out if they are those that went out before, by their hash, or if
// none went out. A file is compared as a whole, so this holds for files that the store holds in one piece. What a
// process before this one gave out is not known.
//
// Thread-safety: every function from any thread. Ownership: the catalog outlives it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  explicit Inodes(const cache::Catalog& catalog) : Inodes(catalog, {}) {}
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
  // The version of the file that the number stands for, be it one of before. nullopt: none that is known.
  [[nodiscard]] std::optional<cache::Identity> version_of_file(std::uint64_t inode) const;
  [[nodiscard]] bool stands_for(std::uint64_t inode, const cache::Identity& identity) const {
    return version_of_file(inode) == identity;
  }
  // Whether bytes of this version of the file may be shown under the number. To be asked right before they are: from
  // then on the number stands for them. `whole`: all bytes of the file; empty where they are not at hand.
  [[nodiscard]] bool give(std::uint64_t inode, const cache::Identity& identity, std::span<const std::byte> whole);
  // Not everybody who has the file open may read it any more: of its next version he gets nothing.
  void let_nobody_go_on(cache::EntryId entry);
  // A process before this one has given out nobody knows what.
  void note_given_before();

  // The file is this version now, and its number has `version` in the high half.
  void set(cache::EntryId entry, std::uint32_t version, const cache::Identity& identity);

 private:
  struct Present {
    std::uint32_t version = 0;
    cache::Identity identity;
    bool ends = false;  // nobody goes on from it to the next version
  };
  // A number of before, which readers may have open.
  struct Past {
    std::uint32_t version = 0;
    cache::Identity identity;
    std::uint64_t given = 0;  // as given_
  };
  // As many changes of one file as a reader may have it open for: a snapshot is made and removed, modes and owners are
  // set. What is older is given up.
  static constexpr std::size_t kPastMax = 8;

  [[nodiscard]] Present present(cache::EntryId entry) const;
  [[nodiscard]] Present known_now(cache::EntryId entry) const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] Past* past(cache::EntryId entry, std::uint32_t version) const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool is_given(std::uint64_t inode, const cache::Identity& identity, bool is_whole) const;

  const cache::Catalog& catalog_;
  const std::vector<NameNumber> numbers_;      // by entry; empty: the entry plus one
  const std::vector<cache::EntryId> entries_;  // by number, likewise
  std::atomic<bool> any_ = false;              // spares the lock as long as nothing has changed
  // By entry: the hash of the bytes that were given out under its present number, or one of the two values below. It
  // costs 8 bytes an entry, and hashing a file of 100 kB, once, some 5 us.
  std::vector<std::atomic<std::uint64_t>> given_;
  mutable io::Mutex mutex_;  // where any_ is set, for given_, too
  std::unordered_map<cache::EntryId, Present> changed_ HEADRACE_GUARDED_BY(mutex_);
  mutable std::unordered_map<cache::EntryId, std::vector<Past>> past_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse
