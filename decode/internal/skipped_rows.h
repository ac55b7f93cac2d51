// SPDX-License-Identifier: Apache-2.0
// How many rows bad samples took away, from the consumer's thread to the feeder's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "headrace/io/mutex.h"

namespace headrace::decode {

// After bad samples were skipped, batches begin in the middle of groups and have to be copied together. One group with
// only as many rows as were skipped brings them in line again: the consumer says how many, the feeder makes that group.
//
// Thread-safety: any thread.
class SkippedRows {
 public:
  void add(std::uint64_t epoch, std::size_t rows) {
    io::MutexLock lock(mutex_);
    if (epoch != epoch_) rows_ = 0;
    epoch_ = epoch;
    rows_ += rows;
  }
  // How many rows the next group of this epoch should have.
  [[nodiscard]] std::size_t take_group_rows(std::uint64_t epoch, std::size_t batch_size) {
    io::MutexLock lock(mutex_);
    const std::size_t rows = epoch == epoch_ ? std::exchange(rows_, 0) % batch_size : 0;
    return rows > 0 ? rows : batch_size;
  }

 private:
  io::Mutex mutex_;
  std::uint64_t epoch_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::size_t rows_ HEADRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace headrace::decode
