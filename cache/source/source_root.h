// SPDX-License-Identifier: Apache-2.0
// The source's directory, held open, and what its file system is good at. After the source was unmounted and mounted
// anew the descriptor belongs to a mount that is gone: then the path leads to another root.
//
//   auto root = open_source_root({.path = "/data"});
//   auto anew = (*root)->find_remount("/data");                // nullptr: the path leads nowhere else
//   if (anew && anew->has_file("a/b.jpg", identity)) use(anew);
//
// Thread-safety: every function from any thread. Ownership: shared by the FolderSource and by its reads in flight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "headrace/cache/catalog.h"
#include "headrace/cache/source/source_tree.h"
#include "headrace/io/file_system.h"
#include "headrace/io/page_cache_reader.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

class SourceRoot final : public SourceTree {
 public:
  explicit SourceRoot(io::UniqueFd directory);

  [[nodiscard]] int fd() const { return directory_.get(); }
  [[nodiscard]] const io::FileSystemTraits& file_system() const { return file_system_; }
  [[nodiscard]] io::PageCacheReader& page_cache() { return page_cache_; }

  [[nodiscard]] Result<Catalog> open_catalog(const CatalogOptions& options,
                                             const std::filesystem::path& file) const override;
  [[nodiscard]] Result<CatalogChanges> find_changes(const Catalog& catalog,
                                                    const RevalidateOptions& options) const override;
  [[nodiscard]] Result<io::ScannedAttributes> look_at(const std::string& path) const override;
  [[nodiscard]] std::optional<bool> has_acl(const std::string& path) const override;
  [[nodiscard]] std::uint64_t storage_id() const override { return file_system_.id; }

  // What the path leads to now; nullptr where that is this same directory, or nothing.
  [[nodiscard]] std::shared_ptr<SourceRoot> find_remount(const std::filesystem::path& path) const;
  // Whether the path leads to this very file: also over a link to a folder that was none when the catalog was made. May
  // wait for whatever the path leads to.
  [[nodiscard]] bool has_file(const char* path, const Identity& identity) const;
  // Whether it is still this catalog's: a mount keeps the inode number of its root, where numbers last. Elsewhere it
  // is a file system where they do not, and not the folder that it was mounted on.
  [[nodiscard]] bool is_root_of(const Catalog& catalog) const;

 private:
  const io::UniqueFd directory_;
  const io::FileSystemTraits file_system_;
  std::uint64_t device_ = 0;  // both 0 where the kernel did not say
  std::uint64_t inode_ = 0;
  io::PageCacheReader page_cache_;
};

struct SourceRootOptions {
  std::filesystem::path path;
  int directory_fd = -1;               // an open directory to use instead of the path; stays the caller's
  bool path_covered = false;           // the path leads elsewhere: a mount lies over it
  std::filesystem::path catalog_file;  // tells whether another directory at the path is the same data set; may be empty
};

// The directory that the options name. Where the descriptor given leads to a mount that is gone, the path is opened
// instead, unless it is covered. Errors: as opening a directory; kStale: what lies at the path now is not what
// `catalog_file` lists.
[[nodiscard]] Result<std::shared_ptr<SourceRoot>> open_source_root(const SourceRootOptions& options);

}  // namespace headrace::cache
