// SPDX-License-Identifier: Apache-2.0
// Whether a source is still what a catalog says, and what has changed.
//
//   Result<Catalog> catalog = open_catalog(source_fd, options, "imagenet.catalog");  // at start: one stat per folder
//   CatalogChanges changes = *find_changes(catalog, source_fd, {});   // later: every file, as much work as a scan
//   for (const auto& [entry, identity] : changes.changed) store.set_identity(entry, identity);
//
// A folder's mtime changes when a name in it appears, goes away or is given to another file. It does not change when a
// file is written in place: only find_changes() sees that.
//
// Thread-safety: each call blocks its caller and joins its threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

struct CatalogChanges {
  struct Changed {
    EntryId entry = kNoEntry;
    Identity identity;  // from now on
  };
  struct ChangedAttributes {
    EntryId entry = kNoEntry;
    AttributeClass attributes;  // from now on
  };
  struct TouchedFolder {
    EntryId entry = kNoEntry;
    std::int64_t ctime_ns = 0;
  };
  std::vector<ChangedAttributes> attributes;  // files, folders and symlinks whose mode or owner is another
  std::vector<TouchedFolder> touched;         // folders whose ctime is another: their ACL may be, or names in them
  std::vector<Changed> changed;               // files whose identity is another
  std::vector<EntryId> vanished;              // files and symlinks that are gone, or are something else now
  std::size_t appeared = 0;                   // names that the catalog does not have: serving them takes a new catalog
  // The source as it is now, where its names are others and RevalidateOptions::next asks for it; else null.
  std::shared_ptr<const Catalog> next = nullptr;

  [[nodiscard]] bool names_differ() const { return !vanished.empty() || appeared > 0; }
  [[nodiscard]] bool none() const { return attributes.empty() && changed.empty() && vanished.empty() && appeared == 0; }
};

struct RevalidateOptions {
  unsigned threads = 0;                     // 0: as a scan
  const std::atomic<bool>* stop = nullptr;  // of find_changes(), which then ends with kCancelled
  // Of find_changes(): a new catalog is made as these say. Not where less could be read than for the catalog before.
  std::optional<CatalogOptions> next = {};
};

// False: a folder is gone, or its mtime or inode is another. The log names it.
// Errors: as Catalog::scan_fd().
[[nodiscard]] Result<bool> folders_current(const Catalog& catalog, int source_fd, const RevalidateOptions& options);
// Errors: as Catalog::scan_fd(), also of a folder that cannot be read now: its files have not vanished by that.
[[nodiscard]] Result<CatalogChanges> find_changes(const Catalog& catalog, int source_fd,
                                                  const RevalidateOptions& options);

// The saved catalog, if it lists what `options` ask for, however old it is. One that is of no use is logged.
[[nodiscard]] std::optional<Catalog> load_catalog(const CatalogOptions& options, const std::filesystem::path& file);
// For the next start. One that lacks what could not be read is not saved. A failure is logged.
void keep_catalog(const Catalog& catalog, const std::filesystem::path& file);

// The saved catalog, if it lists what `options` ask for and no folder has changed. Else a scan, which replaces `file`.
// `file` empty: always a scan. Errors: as Catalog::scan_fd().
[[nodiscard]] Result<Catalog> open_catalog(int source_fd, const CatalogOptions& options,
                                           const std::filesystem::path& file);

}  // namespace headrace::cache
