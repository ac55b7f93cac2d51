// SPDX-License-Identifier: Apache-2.0
// The files and folders that are not as catalogued any more, for a successor: its catalog is the one that the mount was
// made with.
//
//   ChangedFiles changed(catalog, records, head.changed_count);
//   changed.note(entry, identity, inodes);                   // after the store was told, before the kernel is
//   changed.note_attributes(entry, attributes, inodes);
//   changed.tell(store, inodes);                             // in the successor, before it answers
//   pusher.on_changed(changed.entries());                    // there, too: who died may not have told the kernel yet
//
// A process may die between any two writes: each record has two versions, and which of them holds is written last.
//
// Thread-safety: none; the mount's mutex guards it. Ownership: the channel's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "headrace/cache/store.h"
#include "headrace/fuse/kernel/inodes.h"

namespace headrace::fuse {

struct ChangedFile {
  struct Version {
    cache::Identity identity;
    cache::AttributeClass attributes;
    bool has_identity = false;
    bool has_attributes = false;
    bool vanished = false;
    std::uint32_t number = 0;  // of the version, in the high half of its inode number
  };
  cache::EntryId entry = 0;
  std::uint32_t current = 0;  // which version holds
  std::array<Version, 2> versions = {};
};

class ChangedFiles {
 public:
  // `records`: one per entry of the catalog, so that there is room for all; `count` of them are in use.
  ChangedFiles(const cache::Catalog& catalog, std::span<ChangedFile> records, std::uint64_t& count);

  void note(cache::EntryId entry, const cache::Identity& identity, Inodes& inodes);
  void note_vanished(cache::EntryId entry);
  [[nodiscard]] bool has_vanished(cache::EntryId entry) const { return present(entry).vanished; }
  // For a successor that has another catalog: the file is as catalogued there, and has a number of its own.
  void begin_with(cache::EntryId entry, std::uint32_t number, const cache::Identity& identity);
  void note_attributes(cache::EntryId entry, const cache::AttributeClass& attributes, Inodes& inodes);
  void tell(cache::Store& store, Inodes& inodes) const;
  [[nodiscard]] std::vector<cache::EntryId> entries() const;
  [[nodiscard]] bool has(cache::EntryId entry) const { return record_of_.contains(entry); }

 private:
  [[nodiscard]] ChangedFile::Version present(cache::EntryId entry) const;
  void write(cache::EntryId entry, const ChangedFile::Version& version);

  const cache::Catalog& catalog_;
  std::span<ChangedFile> records_;
  std::uint64_t& count_;
  std::unordered_map<cache::EntryId, std::size_t> record_of_;
};

}  // namespace headrace::fuse
