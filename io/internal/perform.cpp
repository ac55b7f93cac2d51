// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/perform.h"

#include <cerrno>
#include <cstdint>

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

// Until the operation has ended, or the file has to be opened in another cache mode. True: it has ended.
bool transfer(Operation& operation, int fd) {
  if (!is_expected(operation, fd, Look::kBefore)) return true;
  const CacheMode opened_for = operation.internal.cache_mode;
  while (operation.length_bytes > 0 && !finished_after(operation, transfer_once(operation, fd))) {
    if (operation.internal.cache_mode != opened_for) return false;
  }
  static_cast<void>(is_expected(operation, fd, Look::kAfter));
  return true;
}

}  // namespace

void perform(Operation& operation) {
  if (operation.kind != Operation::Kind::kReadPath) {
    static_cast<void>(transfer(operation, operation.fd));
    return;
  }
  for (bool finished = false; !finished;) {
    const int fd = open_beneath(operation.fd, operation.path, open_flags(operation.internal.cache_mode));
    if (fd >= 0) prepare_opened(operation, fd);
    finished = fd < 0 ? finished_after(operation, fd) : transfer(operation, fd);
    if (fd >= 0 && !(finished && hand_over(operation, fd))) ::close(fd);
  }
}

}  // namespace headrace::io::internal
