// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/batch_buffers.h"

#include <utility>

namespace headrace::decode {

Result<std::shared_ptr<BatchBuffers>> BatchBuffers::allocate(const std::vector<std::span<std::byte>>& memory,
                                                             std::size_t count, std::size_t bytes,
                                                             std::size_t lent_max) {
  std::shared_ptr<BatchBuffers> all(new BatchBuffers);
  all->lent_max_ = lent_max;
  all->buffers_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (i < memory.size()) {
      all->buffers_[i].memory = memory[i];
    } else {
      HEADRACE_TRY(own, io::Buffer::allocate(bytes));
      all->buffers_[i].memory = {own.data(), bytes};
      all->own_.push_back(std::move(own));
    }
    all->put_back(all->buffers_[i]);
  }
  return all;
}

BatchBuffer* BatchBuffers::take() {
  io::MutexLock lock(mutex_);
  while (!closed_ && free_.empty()) changed_for_feeder_.wait(lock);
  if (closed_) return nullptr;
  BatchBuffer* buffer = free_.front();
  free_.pop_front();
  return buffer;
}

void BatchBuffers::put_back(BatchBuffer& buffer) {
  io::MutexLock lock(mutex_);
  free_.push_back(&buffer);
  changed_for_feeder_.notify_one();
}

Status BatchBuffers::await_loan(std::chrono::steady_clock::time_point deadline) {
  io::MutexLock lock(mutex_);
  bool in_time = true;
  while (!closed_ && lent_ == lent_max_ && in_time) in_time = changed_for_consumer_.wait_until(lock, deadline);
  if (closed_) return io::make_error(io::ErrorCode::kCancelled, "the loader was stopped");
  if (lent_ < lent_max_) return {};
  return io::make_error(io::ErrorCode::kTimedOut, "all batches are lent");
}

void BatchBuffers::note_lent() {
  io::MutexLock lock(mutex_);
  ++lent_;
}

void BatchBuffers::take_back(BatchBuffer& buffer) {
  io::MutexLock lock(mutex_);
  --lent_;
  free_.push_back(&buffer);
  changed_for_feeder_.notify_one();
  changed_for_consumer_.notify_one();
}

void BatchBuffers::close() {
  io::MutexLock lock(mutex_);
  closed_ = true;
  changed_for_feeder_.notify_all();
  changed_for_consumer_.notify_all();
}

LentBatch lend(std::shared_ptr<BatchBuffers> buffers, BatchBuffer& buffer) {
  buffers->note_lent();
  return {&buffer.batch, GiveBack(std::move(buffers), buffer)};
}

void GiveBack::operator()(const Batch*) const {
  buffers_->take_back(*buffer_);
}

}  // namespace headrace::decode
