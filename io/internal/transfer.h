// SPDX-License-Identifier: Apache-2.0
// What every engine does alike with an operation: which bytes to move next, what the result of a system call means,
// when to try again, and how the end is reported. Engines differ only in who makes the system call.
//
//   begin(operation);
//   if (is_expected(operation, fd, Look::kBefore)) {
//     do {
//       result = pread(fd, ..., next_transfer(operation));
//     } while (!finished_after(operation, result));
//     static_cast<void>(is_expected(operation, fd, Look::kAfter));
//   }
//   deliver(operation);
//
// Thread-safety: as the operation: one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "headrace/io/engine.h"

namespace headrace::io::internal {

// The kernel moves at most this much per call (MAX_RW_COUNT, 2 GiB less a page).
inline constexpr std::uint64_t kTransferBytesMax = 0x7ffff000;

struct Transfer {
  std::byte* data = nullptr;
  std::uint64_t offset_bytes = 0;
  std::uint32_t length_bytes = 0;
};

// Resets the engine-private state. Asserts that the caller gave a callback and a buffer that is large enough.
void begin(Operation& operation);

// The next piece of a read or write, at most `limit_bytes`: tests use small pieces to see that they are joined.
[[nodiscard]] Transfer next_transfer(const Operation& operation, std::uint64_t limit_bytes = kTransferBytesMax);

// Takes in the result of one system call (bytes or -errno). True: the operation has ended and its outcome is set.
// False: do it again with next_transfer(); a path is opened again, with open_flags() as they are then.
[[nodiscard]] bool finished_after(Operation& operation, std::int64_t result);

// Compares the opened file with the version that the operation expects, before the first byte or after the last one.
// False: the operation ends without success; the outcome is set, to kStale where the versions differ.
//
// The second look asks the server where an open does (Operation::opens_wait): what the kernel remembers may be older
// than the bytes that the server has just sent.
enum class Look : std::uint8_t { kBefore, kAfter };
[[nodiscard]] bool is_expected(Operation& operation, int fd, Look look);
// The same with attributes that the caller has got.
[[nodiscard]] bool is_expected(Operation& operation, const Result<FileAttributes>& now);

// Ends the operation with -errno or bytes of content.
void finish(Operation& operation, std::int64_t outcome);

// To be called for each file that the operation opened, before it reads. What is read of one that stays open are
// records that somebody asked for: what the kernel would read ahead of them costs the source, and is of no use.
void prepare_opened(const Operation& operation, int fd);

// Whether the file that the operation opened is handed over with its outcome, which is set; else it is to be closed.
[[nodiscard]] bool hand_over(Operation& operation, int fd);

// Runs on_complete. The operation may be gone afterwards.
void deliver(Operation& operation);

// Flags for open(2) of a kReadPath. O_NONBLOCK: a FIFO put in the file's place must not hold the thread; regular files
// ignore it.
[[nodiscard]] int open_flags(CacheMode cache_mode);

// Counts an operation whose cache mode was refused and that used the page cache; the first one is logged.
void count_fallback(const Operation& operation, std::atomic<std::uint64_t>& buffered_fallbacks);

}  // namespace headrace::io::internal
