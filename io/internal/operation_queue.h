// SPDX-License-Identifier: Apache-2.0
// A first-in first-out queue of operations, linked through the operations themselves: no allocation, O(1) removal.
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
  [[nodiscard]] Operation* first() const { return first_; }

  void push_back(Operation& operation) {
    operation.internal.next = nullptr;
    operation.internal.previous = last_;
    (last_ != nullptr ? last_->internal.next : first_) = &operation;
    last_ = &operation;
    ++size_;
  }

  // `operation` is in this queue.
  void remove(Operation& operation) {
    Operation* const next = operation.internal.next;
    Operation* const previous = operation.internal.previous;
    (previous != nullptr ? previous->internal.next : first_) = next;
    (next != nullptr ? next->internal.previous : last_) = previous;
    operation.internal.next = operation.internal.previous = nullptr;
    --size_;
  }

  // The queue is not empty.
  Operation& pop_front() {
    Operation& operation = *first_;
    remove(operation);
    return operation;
  }

  // All that is queued; leaves this queue empty.
  [[nodiscard]] OperationQueue take() {
    OperationQueue taken = *this;
    first_ = last_ = nullptr;
    size_ = 0;
    return taken;
  }

 private:
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace headrace::io::internal
