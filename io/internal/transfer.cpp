// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/transfer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

#include "headrace/io/log.h"

namespace headrace::io::internal {
namespace {

using Kind = Operation::Kind;

// EINTR and EAGAIN say nothing about the device. 16 of them in one operation are no accident; then they are reported.
constexpr int kRetryLimit = 16;

bool is_read(const Operation& operation) {
  return operation.kind == Kind::kReadPath || operation.kind == Kind::kRead;
}

bool is_direct_read(const Operation& operation) {
  return is_read(operation) && operation.internal.cache_mode == CacheMode::kDirect;
}

// Where the whole transfer lies in the file: for direct reads widened to the alignment at both ends.
// It is always widened to 4096: a device reads no less anyway, and devices with blocks of 512 bytes accept it.
struct Extent {
  std::uint64_t offset_bytes;
  std::uint64_t length_bytes;
};

Extent extent_of(const Operation& operation) {
  if (!is_direct_read(operation)) return {operation.offset_bytes, operation.length_bytes};
  const std::uint64_t begin = operation.offset_bytes / kBufferAlignment * kBufferAlignment;
  const std::uint64_t end = operation.offset_bytes + operation.length_bytes;
  return {begin, (end - begin + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment};
}

std::size_t skip_of(const Operation& operation) {
  return static_cast<std::size_t>(operation.offset_bytes - extent_of(operation).offset_bytes);
}

std::uint64_t content_bytes(const Operation& operation) {
  const std::uint64_t progress = operation.internal.progress_bytes;
  const std::uint64_t skip = skip_of(operation);
  return progress <= skip ? 0 : std::min(progress - skip, operation.length_bytes);
}

bool ended_after_bytes(Operation& operation, std::uint64_t bytes) {
  operation.internal.progress_bytes += bytes;
  const bool complete = content_bytes(operation) == operation.length_bytes;
  // A direct transfer stops in the middle of a block only where the file ends; reading on would be misaligned.
  const bool at_end =
      bytes == 0 || (is_direct_read(operation) && operation.internal.progress_bytes % kBufferAlignment != 0);
  if (!complete && !at_end) return false;
  // A write that moves nothing and reports no error would be repeated for ever.
  const bool stuck_write = !complete && operation.kind == Kind::kWrite;
  finish(operation, stuck_write ? -EIO : static_cast<std::int64_t>(content_bytes(operation)));
  return true;
}

bool use_page_cache_after(Operation& operation, std::int64_t error) {
  const bool direct = operation.internal.cache_mode == CacheMode::kDirect;
  if (!direct || operation.kind != Kind::kReadPath || error != -EINVAL) return false;
  operation.internal.cache_mode = CacheMode::kBuffered;
  operation.internal.progress_bytes = 0;
  return true;
}

Result<FileAttributes> attributes_from_server(int fd) {
  struct statx status = {};
  const int flags = AT_EMPTY_PATH | AT_STATX_FORCE_SYNC;
  if (::statx(fd, "", flags, STATX_BASIC_STATS, &status) != 0) return system_error(errno, "statx");
  return attributes_from(status);
}

std::string describe(const Operation& operation) {
  const std::string verb = operation.kind == Kind::kWrite ? "write" : "read";
  if (operation.kind == Kind::kReadPath) return verb + ' ' + operation.path;
  return verb + " descriptor " + std::to_string(operation.fd) + " at " + std::to_string(operation.offset_bytes);
}

}  // namespace

void begin(Operation& operation) {
  HEADRACE_ASSERT(operation.on_complete != nullptr);
  HEADRACE_ASSERT(operation.internal.place == Operation::Internal::Place::kIdle);
  operation.internal = {};
  operation.internal.cache_mode = operation.cache_mode;
  operation.skip_bytes = 0;
  operation.kept_fd = -1;
  HEADRACE_ASSERT(operation.offset_bytes <= std::numeric_limits<std::int64_t>::max() / 2);
  HEADRACE_ASSERT(operation.length_bytes <= std::numeric_limits<std::int64_t>::max() / 2);
  if (operation.kind == Kind::kReadPath) HEADRACE_ASSERT(operation.path != nullptr);
  if (is_read(operation)) HEADRACE_ASSERT(extent_of(operation).length_bytes <= operation.buffer.capacity());
  if (operation.kind == Kind::kWrite) HEADRACE_ASSERT(operation.length_bytes <= operation.buffer.size());
}

Transfer next_transfer(const Operation& operation, std::uint64_t limit_bytes) {
  const Extent extent = extent_of(operation);
  const std::uint64_t progress = operation.internal.progress_bytes;
  const std::uint64_t left = std::min({extent.length_bytes - progress, limit_bytes, kTransferBytesMax});
  Transfer transfer;
  // The buffer is the operation's own; const here only says that the operation itself is not changed.
  transfer.data = const_cast<std::byte*>(operation.buffer.data()) + progress;
  transfer.offset_bytes = extent.offset_bytes + progress;
  transfer.length_bytes = static_cast<std::uint32_t>(left);
  return transfer;
}

bool finished_after(Operation& operation, std::int64_t result) {
  if (result >= 0 && ended_after_bytes(operation, static_cast<std::uint64_t>(result))) return true;
  if (operation.internal.stopped) {
    finish(operation, -ECANCELED);
    return true;
  }
  if (result >= 0) return false;
  const bool transient = result == -EINTR || result == -EAGAIN;
  if (transient && operation.internal.retry_count++ < kRetryLimit) return false;
  if (use_page_cache_after(operation, result)) return false;
  finish(operation, result);
  return true;
}

bool is_expected(Operation& operation, int fd, Look look) {
  if (operation.expected == nullptr) return true;
  if (look == Look::kAfter && operation.internal.outcome < 0) return false;
  const bool ask = look == Look::kAfter && operation.opens_wait;
  return is_expected(operation, ask ? attributes_from_server(fd) : attributes_of(fd));
}

bool is_expected(Operation& operation, const Result<FileAttributes>& now) {
  if (!now) {
    finish(operation, -now.error().os_errno);
  } else if (*now != *operation.expected) {
    operation.found = *now;
    operation.internal.stale = true;
    finish(operation, -ESTALE);
  } else {
    return true;
  }
  return false;
}

void finish(Operation& operation, std::int64_t outcome) {
  operation.internal.outcome = outcome;
}

void prepare_opened(const Operation& operation, int fd) {
  if (operation.keep_open) ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
}

bool hand_over(Operation& operation, int fd) {
  if (!operation.keep_open || operation.internal.stale || operation.internal.outcome < 0) return false;
  operation.kept_fd = fd;
  operation.opened_for = operation.internal.cache_mode;
  return true;
}

void deliver(Operation& operation) {
  const std::int64_t outcome = operation.internal.outcome;
  operation.internal.place = Operation::Internal::Place::kIdle;
  if (operation.internal.stale) {
    operation.on_complete(operation, make_error(ErrorCode::kStale, describe(operation)));
    return;
  }
  if (outcome < 0) {
    operation.on_complete(operation, system_error(static_cast<int>(-outcome), describe(operation)));
    return;
  }
  if (is_read(operation)) {
    operation.skip_bytes = skip_of(operation);
    operation.buffer.set_size(operation.skip_bytes + static_cast<std::size_t>(outcome));
  }
  operation.on_complete(operation, static_cast<std::uint64_t>(outcome));
}

int open_flags(CacheMode cache_mode) {
  return O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK | (cache_mode == CacheMode::kDirect ? O_DIRECT : 0);
}

void count_fallback(const Operation& operation, std::atomic<std::uint64_t>& buffered_fallbacks) {
  if (operation.internal.cache_mode == operation.cache_mode) return;
  if (buffered_fallbacks.fetch_add(1, std::memory_order_relaxed) > 0) return;
  log_warning("{}: its file system refuses direct reads; the page cache is used, also for others like it",
              describe(operation));
}

}  // namespace headrace::io::internal
