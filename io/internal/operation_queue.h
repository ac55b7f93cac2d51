// SPDX-License-Identifier: Apache-2.0
// A first-in first-out queue of operations, linked through the operations themselves: it allocates nothing.
//
// Thread-safety: none; the engine's lock or its driving thread. Ownership: of nothing; operations are the caller's.
#pragma once

#include <cstddef>

#include "headrace/io/engine.h"

namespace headrace::io::internal {

class OperationQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_; }

  void push_back(Operation& operation) {
    operation.internal.next = nullptr;
    (last_ != nullptr ? last_->internal.next : first_) = &operation;
    last_ = &operation;
    ++size_;
  }

  // The queue is not empty.
  Operation& pop_front() {
    Operation& operation = *first_;
    first_ = operation.internal.next;
    if (first_ == nullptr) last_ = nullptr;
    operation.internal.next = nullptr;
    --size_;
    return operation;
  }

  // All that is queued; leaves this queue empty.
  [[nodiscard]] OperationQueue take() {
    OperationQueue taken = *this;
    *this = {};
    return taken;
  }

 private:
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace headrace::io::internal
