// SPDX-License-Identifier: Apache-2.0
// Reads small files that the kernel's page cache has already, at once and on the caller's thread.
//
//   PageCacheReader reader(dir_fd);
//   if (reader.try_read("a/b.jpg", buffer_bytes, &expected)) return;   // else through an Engine
//
// A copy from the page cache takes less time than handing the read to another thread and back, whatever the engine.
// cachestat(2) (Linux 6.5) tells whether the cache has the file. A read with RWF_NOWAIT would tell it too, but when it
// is refused it has started read-ahead, so that a cold file is fetched a second time beside the direct read (512 KiB of
// read-ahead for a probe of 110 kB, Linux 6.18, ext4). On older kernels nothing is ever a hit.
//
// Thread-safety: any thread. Ownership: the directory descriptor stays the caller's and outlives the reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/io/file_attributes.h"

namespace headrace::io {

class PageCacheReader {
 public:
  // `in_memory`: the files lie on tmpfs (FileSystemTraits::in_memory), every read is a hit.
  explicit PageCacheReader(int dir_fd, bool in_memory = false) : dir_fd_(dir_fd), in_memory_(in_memory) {}

  // Fills `content` with the first bytes of the file, if it is the version expected (nullptr: any). False, and
  // `content` undefined: not all cached, another version, shorter, missing, unreadable. The engine's read finds out
  // which. After many misses in a row most calls return false without a look.
  [[nodiscard]] bool try_read(const char* path, std::span<std::byte> content, const FileAttributes* expected);

 private:
  [[nodiscard]] bool read_now(const char* path, std::span<std::byte> content, const FileAttributes* expected) const;

  const int dir_fd_;
  const bool in_memory_;
  std::atomic<std::uint32_t> miss_streak_{0};
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace headrace::io
