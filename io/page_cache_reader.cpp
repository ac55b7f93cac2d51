// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/page_cache_reader.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "headrace/io/open_beneath.h"
#include "headrace/io/page_bytes.h"
#include "headrace/io/unique_fd.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451  // the same on every architecture but alpha
#endif

namespace headrace::io {
namespace {

// A miss costs about 3 us (openat2, cachestat, close). After 64 misses in a row the data set counts as cold; from then
// on every 16th call looks whether that has changed.
constexpr std::uint32_t kMissesBeforeSampling = 64;
constexpr std::uint32_t kSampledCalls = 16;

// The arguments of cachestat(2), which Debian 12's headers do not have yet.
struct CacheStatRange {
  std::uint64_t offset_bytes;
  std::uint64_t length_bytes;
};
struct CacheStat {
  std::uint64_t cached_pages;
  std::uint64_t dirty_pages;
  std::uint64_t writeback_pages;
  std::uint64_t evicted_pages;
  std::uint64_t recently_evicted_pages;
};

bool all_cached(int fd, std::size_t bytes) {
  CacheStatRange range{0, bytes};
  CacheStat stat = {};
  if (::syscall(SYS_cachestat, fd, &range, &stat, 0) != 0) return false;
  return stat.cached_pages >= (bytes + page_bytes() - 1) / page_bytes();
}

bool is_version(int fd, const FileAttributes* expected) {
  if (expected == nullptr) return true;
  const Result<FileAttributes> now = attributes_of(fd);
  return now && *now == *expected;
}

}  // namespace

bool PageCacheReader::try_read(const char* path, std::span<std::byte> content, const FileAttributes* expected) {
  const bool cold = miss_streak_.load(std::memory_order_relaxed) >= kMissesBeforeSampling;
  if (cold && calls_.fetch_add(1, std::memory_order_relaxed) % kSampledCalls != 0) return false;
  const bool hit = read_now(path, content, expected);
  if (!hit) {
    miss_streak_.fetch_add(cold ? 0 : 1, std::memory_order_relaxed);
  } else if (miss_streak_.load(std::memory_order_relaxed) != 0) {
    miss_streak_.store(0, std::memory_order_relaxed);
  }
  return hit;
}

bool PageCacheReader::read_now(const char* path, std::span<std::byte> content, const FileAttributes* expected) const {
  const UniqueFd file(open_beneath_if_cached(dir_fd_, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() || !is_version(file.get(), expected)) return false;
  if (!in_memory_ && !all_cached(file.get(), content.size())) return false;
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::pread(file.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return is_version(file.get(), expected);
}

}  // namespace headrace::io
