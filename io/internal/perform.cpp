// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/perform.h"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <unistd.h>

#include "headrace/io/internal/transfer.h"
#include "headrace/io/open_beneath.h"

namespace headrace::io::internal {
namespace {

std::int64_t result_of(ssize_t result) {
  return result >= 0 ? result : -errno;
}

std::int64_t transfer_once(const Operation& operation, int fd) {
  const Transfer transfer = next_transfer(operation);
  const auto at = static_cast<off_t>(transfer.offset_bytes);
  if (operation.kind == Operation::Kind::kWrite)
    return result_of(::pwrite(fd, transfer.data, transfer.length_bytes, at));
  return result_of(::pread(fd, transfer.data, transfer.length_bytes, at));
}

// O_NONBLOCK: a FIFO put in the file's place must not hold the thread; regular files ignore it.
int open_path(const Operation& operation) {
  return open_beneath(operation.fd, operation.path, open_flags(operation) | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace

void perform(Operation& operation) {
  const bool by_path = operation.kind == Operation::Kind::kReadPath;
  bool finished = false;
  while (!finished) {
    const int fd = by_path ? open_path(operation) : operation.fd;
    if (by_path && fd < 0) {
      finished = finished_after(operation, fd);
      continue;
    }
    const CacheMode opened_for = operation.internal.cache_mode;
    do {
      finished = finished_after(operation, transfer_once(operation, fd));
    } while (!finished && operation.internal.cache_mode == opened_for);
    if (by_path) ::close(fd);
  }
}

}  // namespace headrace::io::internal
