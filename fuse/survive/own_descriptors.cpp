// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/own_descriptors.h"

#include <algorithm>
#include <cerrno>

#include <sched.h>
#include <unistd.h>

namespace headrace::fuse {
namespace {

void close_others(std::span<const int> kept) {
  unsigned next = 3;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > next) ::close_range(next, number - 1, 0);
    next = std::max(next, number + 1);
  }
  ::close_range(next, ~0U, 0);
}

}  // namespace

io::Status keep_only(std::span<const int> kept) {
  if (::unshare(CLONE_FILES) != 0) return io::system_error(errno, "a table of descriptors of its own");
  close_others(kept);
  return {};
}

}  // namespace headrace::fuse
