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
// The inode number counts where it lasts as long as the file does. Some file systems draw it anew whenever the kernel
// has forgotten the inode (has_lasting_inodes()): a memory limit is enough for that, and no file has changed. A scan
// leaves it 0 there, and a number that is 0 is not compared. Nothing is lost by that on sshfs and most of the others,
// where the number is the path's and tells no replacement anyway. Replacing changes the change time, whether the
// number is another or not. Only a file that came with a renamed folder, with the same size and times to the
// nanosecond, passes for the one before; so the number counts wherever it can. Where times are whole seconds, and a
// change time cannot be told from a modification time that was set back, nothing tells such a file, with the number
// or without it.
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
  std::uint64_t inode = 0;  // 0: does not last, and is not compared

  friend bool operator==(const FileAttributes& a, const FileAttributes& b) {
    return a.size_bytes == b.size_bytes && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns &&
           (a.inode == b.inode || a.inode == 0 || b.inode == 0);
  }
};

// As the kernel knows them; a network file system may know them from an earlier answer of its server.
// Errors: those of fstat(2).
[[nodiscard]] Result<FileAttributes> attributes_of(int fd);

[[nodiscard]] FileAttributes attributes_from(const struct stat& status);
[[nodiscard]] FileAttributes attributes_from(const struct statx& status);  // with STATX_BASIC_STATS

}  // namespace headrace::io
