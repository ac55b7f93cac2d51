// SPDX-License-Identifier: Apache-2.0
// Reads a whole directory tree: names and attributes of everything below one open directory, on several threads.
//
//   auto tree = scan_tree(source_fd, {});
//   for (const ScannedDirectory& directory : tree->directories)
//     for (const ScannedEntry& entry : directory.entries) use(directory.name(entry), entry.size_bytes);
//
// Symlinks are kept with their targets and never followed, so that a loop is impossible. Everything is reached from the
// open directory and not from its path, because a mount may have covered the path meanwhile. Mount points below it are
// entered, as cp and find do, except FUSE mounts: one may be a mount of this very tree, or dead.
//
// Thread-safety: scan_tree() blocks its caller and joins its threads before it returns; the result is a plain value.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "headrace/io/result.h"

namespace headrace::io {

inline constexpr std::uint32_t kNoDirectory = UINT32_MAX;

struct ScannedAttributes {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  std::uint64_t inode = 0;
  mode_t mode = 0;  // type and permission bits
  uid_t uid = 0;
  gid_t gid = 0;
};

// A file, symlink or directory. The entries of a directory are in the order in which the device stores the inodes.
struct ScannedEntry {
  ScannedAttributes attributes;            // of a directory: empty here, see ScannedDirectory::attributes
  std::uint32_t directory = kNoDirectory;  // a directory: its place in ScannedTree::directories
  std::uint32_t name_offset = 0;
  std::uint32_t target_offset = 0;
  std::uint16_t name_bytes = 0;
  std::uint16_t target_bytes = 0;  // 0 but for symlinks
};

struct ScannedDirectory {
  ScannedAttributes attributes;
  std::uint32_t parent = kNoDirectory;  // the root has none
  std::uint32_t name_offset = 0;        // its own name, in the names of `parent`
  std::uint16_t name_bytes = 0;
  bool readable = false;  // false: could not be read, has no entries
  std::vector<ScannedEntry> entries;
  std::string names;    // of the entries, one after the other; bytes, not text
  std::string targets;  // of the symlinks among them

  [[nodiscard]] std::string_view name(const ScannedEntry& entry) const {
    return std::string_view(names).substr(entry.name_offset, entry.name_bytes);
  }
  [[nodiscard]] std::string_view target(const ScannedEntry& entry) const {
    return std::string_view(targets).substr(entry.target_offset, entry.target_bytes);
  }
};

// A folder that could not be listed, or an entry whose attributes could not be read.
struct Unreadable {
  std::string path;
  int os_errno = 0;
};

struct ScannedTree {
  std::deque<ScannedDirectory> directories;  // [0] is the root
  std::size_t skipped = 0;                   // left out: what could not be read, special files, FUSE mounts
  std::size_t unreadable_count = 0;          // of these, what could not be read: the tree is not the whole data set
  std::vector<Unreadable> unreadable;        // the first kUnreadableMax of them
};
// Enough to see which folders they are, few enough to be shown.
inline constexpr std::size_t kUnreadableMax = 100;

struct ScanOptions {
  unsigned threads = 0;  // 0: chosen from the cores; the threads wait for the device most of the time
  const std::atomic<bool>* stop = nullptr;  // another thread sets it: the scan ends with kCancelled
};
[[nodiscard]] unsigned scan_threads(const ScanOptions& options);

// Of one file, symlink or folder, with the inode number as it is now, whether it lasts or not. Errors: kNotFound,
// kPermission, kSystem.
[[nodiscard]] Result<ScannedAttributes> read_attributes(int directory_fd, const std::string& path);

// What cannot be read for a reason that may pass (EIO, ESTALE, EMFILE, a network that is away) is tried again for a
// short while. What still cannot be read is left out and told in `unreadable`. Each thing left out is logged as a
// warning, the first few by name. What vanishes during the scan is left out silently.
// Errors: kNotFound (not a directory), kPermission, kSystem: `root_fd` itself cannot be read; kCancelled.
[[nodiscard]] Result<ScannedTree> scan_tree(int root_fd, const ScanOptions& options);

}  // namespace headrace::io
