// SPDX-License-Identifier: Apache-2.0
// What the feeder, the decoder threads and the consumer of a BatchLoader hand to each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "headrace/decode/batch_loader.h"
#include "headrace/io/mutex.h"

namespace headrace::decode {

struct BatchRow {
  RawSample raw;  // its bytes are let go once decoded
  SampleState state = SampleState::kGood;
  io::Error error;     // kBad: why
  std::string damage;  // kRepaired: what was wrong
};

// Ownership: by turns the feeder's (which fills `rows`), each row for its decoder thread, and the consumer's.
struct BatchSlot {
  std::span<std::byte> memory;
  std::uint64_t epoch = 0;
  std::vector<BatchRow> rows;  // batch_size of them
  std::size_t row_count = 0;   // in use
  // Rows not decoded yet, and one more until the feeder has added the last row. Whoever makes it zero completes the
  // slot.
  std::atomic<std::size_t> unfinished = 0;
};

// After bad samples were skipped, batches begin in the middle of slots and have to be copied together. One slot with
// only as many rows as were skipped brings them in line again: the consumer says how many, the feeder makes that slot.
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
  // How many rows the next slot of this epoch should have.
  [[nodiscard]] std::size_t take_slot_rows(std::uint64_t epoch, std::size_t batch_size) {
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
