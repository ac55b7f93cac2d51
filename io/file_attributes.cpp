// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/file_attributes.h"

#include <cerrno>

namespace headrace::io {
namespace {

// Saturates outside of the years 1677 to 2262. Some file systems allow such times, and they are always a mistake.
std::int64_t nanoseconds(std::int64_t seconds, std::int64_t rest) {
  std::int64_t sum = 0;
  if (__builtin_mul_overflow(seconds, std::int64_t{1'000'000'000}, &sum) || __builtin_add_overflow(sum, rest, &sum)) {
    return seconds < 0 ? INT64_MIN : INT64_MAX;
  }
  return sum;
}

}  // namespace

Result<FileAttributes> attributes_of(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return system_error(errno, "fstat");
  return attributes_from(status);
}

FileAttributes attributes_from(const struct stat& status) {
  return {.size_bytes = static_cast<std::uint64_t>(status.st_size),
          .mtime_ns = nanoseconds(status.st_mtim.tv_sec, status.st_mtim.tv_nsec),
          .ctime_ns = nanoseconds(status.st_ctim.tv_sec, status.st_ctim.tv_nsec),
          .inode = status.st_ino};
}

FileAttributes attributes_from(const struct statx& status) {
  return {.size_bytes = status.stx_size,
          .mtime_ns = nanoseconds(status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec),
          .ctime_ns = nanoseconds(status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec),
          .inode = status.stx_ino};
}

}  // namespace headrace::io
