// SPDX-License-Identifier: Apache-2.0
// What the file system and the device below an open file or directory are good at.
//
//   const FileSystemTraits traits = describe_file_system(dir_fd);
//   operation.cache_mode = traits.cache_mode;
//   engine_options.rotational = traits.rotational;
//
// Thread-safety: any thread. Nothing here fails: where the kernel does not say, the result is what works everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "headrace/io/engine.h"

namespace headrace::io {

struct FileSystemTraits {
  std::string name;                             // "ext4", "xfs", "tmpfs"; "0x6969" style when not known here
  CacheMode cache_mode = CacheMode::kBuffered;  // for data that headrace keeps a copy of itself
  bool in_memory = false;                       // tmpfs, ramfs: reads never wait, and a copy gains nothing
  bool opens_wait = true;                       // an open may ask a server: network, FUSE and unknown file systems
  bool has_lasting_inodes = true;               // as the function below
  bool rotational = false;                      // a hard disk, as far as the kernel knows
  // Tells this file system from all others, also after a reboot and at another path; 0: nothing does so reliably.
  std::uint64_t id = 0;
};

[[nodiscard]] FileSystemTraits describe_file_system(int fd);

// kDirect where the file system does direct I/O at kBufferAlignment or finer; kBuffered elsewhere (tmpfs, network and
// FUSE file systems, whose own caching is worth having).
[[nodiscard]] CacheMode choose_cache_mode(int fd);

[[nodiscard]] bool is_rotational(int fd);

// Whether a file keeps its inode number for as long as it is there. FAT, exFAT, SMB shares and most FUSE file systems
// (sshfs, mergerfs, unionfs, squashfuse) draw it anew after the kernel has forgotten the inode, and when they are
// mounted. No FUSE file system says whether it is one that does not.
[[nodiscard]] bool has_lasting_inodes(int fd);

// Where the first byte of the file lies on its device, for reading files of a hard disk in one sweep (FIEMAP).
// nullopt: not on a device, not allocated yet, or the file system does not say.
[[nodiscard]] std::optional<std::uint64_t> physical_offset(int fd);

}  // namespace headrace::io
