// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/write_all.h"

#include <cerrno>

#include <unistd.h>

namespace headrace::io {

Status write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno, "write " + name);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

}  // namespace headrace::io
