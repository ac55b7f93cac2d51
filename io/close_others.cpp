// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/close_others.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

namespace headrace::io {
namespace {

// False: it is refused, and nothing was closed.
bool close_ranges(std::span<const int> kept) {
  unsigned next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > next && ::close_range(next, number - 1, 0) != 0) return false;
    next = std::max(next, number + 1);
  }
  return ::close_range(next, ~0U, 0) == 0;
}

bool is_kept(int fd, std::span<const int> kept) {
  return fd <= STDERR_FILENO || std::ranges::binary_search(kept, fd);
}

// The kernel lists by number, so that what is closed meanwhile makes it skip nothing.
Status close_listed(std::span<const int> kept) {
  const UniqueFd list(::open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!list.valid()) return system_error(errno, "/proc/thread-self/fd");
  alignas(dirent64) std::array<char, 4096> room = {};
  while (true) {
    const ssize_t bytes = ::getdents64(list.get(), room.data(), room.size());
    if (bytes < 0) return system_error(errno, "/proc/thread-self/fd");
    if (bytes == 0) return {};
    for (ssize_t at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(room.data() + at);
      at += entry->d_reclen;
      const char* const name = entry->d_name;
      int fd = -1;
      const bool is_number = std::from_chars(name, name + std::strlen(name), fd).ec == std::errc();
      if (is_number && fd != list.get() && !is_kept(fd, kept)) ::close(fd);
    }
  }
}

}  // namespace

Status close_others(std::span<const int> kept) {
  if (close_ranges(kept)) return {};
  return close_listed(kept);
}

}  // namespace headrace::io
