// SPDX-License-Identifier: Apache-2.0
// The memory of a BatchLoader's batches: a buffer is filled by the loader, lent to the consumer, and given back by
// whichever thread is done with it.
//
//   BatchBuffer* buffer = buffers->take();       // feeder: sleeps until one is free
//   buffers->await_loan(deadline);               // consumer: sleeps while as many are lent as may be
//   LentBatch batch = lend(buffers, *buffer);    // given back when `batch` goes, on any thread
//
// Thread-safety: any thread. Ownership: shared by the loader and by what is lent, so that a batch may outlive the
// loader.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "headrace/decode/batch_loader.h"
#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"

namespace headrace::decode {

// Belongs to one party at a time: to nobody (free), to a group of rows that is being decoded, or to whom it is lent.
struct BatchBuffer {
  std::span<std::byte> memory;
  Batch batch;  // while it is lent: what lies in the memory
};

class BatchBuffers {
 public:
  // `memory`: of each buffer. Buffers without memory of the caller's get their own of `bytes`. Errors: kSystem with
  // ENOMEM.
  [[nodiscard]] static Result<std::shared_ptr<BatchBuffers>> allocate(const std::vector<std::span<std::byte>>& memory,
                                                                      std::size_t count, std::size_t bytes,
                                                                      std::size_t lent_max);

  // The buffer that has been free for longest. nullptr: closed.
  [[nodiscard]] BatchBuffer* take();
  // Of a buffer that was taken and not lent.
  void put_back(BatchBuffer& buffer);

  // Errors: kCancelled (closed), kTimedOut.
  [[nodiscard]] Status await_loan(std::chrono::steady_clock::time_point deadline);
  void note_lent();
  // Of a buffer that was lent. What was read from its memory before is read before it is written again.
  void take_back(BatchBuffer& buffer);

  // Ends take() and await_loan(), now and later.
  void close();

 private:
  BatchBuffers() = default;

  std::vector<io::Buffer> own_;       // constant after allocate()
  std::vector<BatchBuffer> buffers_;  // each belongs to one party at a time
  std::size_t lent_max_ = 1;          // constant after allocate()
  io::Mutex mutex_;
  io::CondVar changed_for_feeder_;
  io::CondVar changed_for_consumer_;
  std::deque<BatchBuffer*> free_ HEADRACE_GUARDED_BY(mutex_);
  std::size_t lent_ HEADRACE_GUARDED_BY(mutex_) = 0;
  bool closed_ HEADRACE_GUARDED_BY(mutex_) = false;
};

// The buffer's batch, on loan.
[[nodiscard]] LentBatch lend(std::shared_ptr<BatchBuffers> buffers, BatchBuffer& buffer);

}  // namespace headrace::decode
