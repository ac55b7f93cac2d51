// SPDX-License-Identifier: Apache-2.0
// What tells one version of a file from another: the attributes that every change of its content changes.
//
//   const Result<FileAttributes> now = attributes_of(fd);
//   if (now && *now != expected) ...   // replaced, grown, shrunk, rewritten or touched
//
// The change time (ctime) is what makes this reliable: a program can set back the size and the modification time, but
// not the change time. Two things stay invisible: writes through a shared memory mapping, which set the times when a
// page is first written and not at each write; and a second change within one tick of the file system's clock (4 ms at
// most on local file systems, none since Linux 6.13 on ext4, xfs, btrfs and tmpfs).
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include <sys/stat.h>

#include "headrace/io/result.h"

namespace headrace::io {

struct FileAttributes {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  std::uint64_t inode = 0;

  bool operator==(const FileAttributes&) const = default;
};

// As the kernel knows them; a network file system may know them from an earlier answer of its server.
// Errors: those of fstat(2).
[[nodiscard]] Result<FileAttributes> attributes_of(int fd);

[[nodiscard]] FileAttributes attributes_from(const struct stat& status);
[[nodiscard]] FileAttributes attributes_from(const struct statx& status);  // with STATX_BASIC_STATS

}  // namespace headrace::io
