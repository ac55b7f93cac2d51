// SPDX-License-Identifier: Apache-2.0
// Reads small files that the kernel's page cache holds already, at once and on the caller's thread.
//
//   PageCacheReader reader(dir_fd);
//   if (reader.try_read("a/b.jpg", buffer_bytes)) return;   // else through an Engine
//
// A copy from the page cache takes less time than handing the read to another thread and back, whatever the engine.
// The cache is asked with cachestat(2) (Linux 6.5), not probed with RWF_NOWAIT: a refused RWF_NOWAIT read has started
// read-ahead, so the probe of a cold file would fetch it a second time beside a direct read (512 KiB of read-ahead for
// a probe of 110 kB, seen on Linux 6.18, ext4). Older kernels: never a hit.
//
// Thread-safety: any thread. Ownership: the directory descriptor stays the caller's and outlives the reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace::io {

class PageCacheReader {
 public:
  // `in_memory`: the files lie on tmpfs (FileSystemTraits::in_memory), every read is a hit.
  explicit PageCacheReader(int dir_fd, bool in_memory = false) : dir_fd_(dir_fd), in_memory_(in_memory) {}

  // Fills `content` with the file's first bytes. False, `content` then undefined: not all cached, shorter, missing,
  // unreadable; the engine's read finds out which. After many misses in a row most calls return false unasked.
  [[nodiscard]] bool try_read(const char* path, std::span<std::byte> content);

 private:
  [[nodiscard]] bool read_now(const char* path, std::span<std::byte> content) const;

  const int dir_fd_;
  const bool in_memory_;
  std::atomic<std::uint32_t> miss_streak_{0};
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace headrace::io
