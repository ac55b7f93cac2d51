// SPDX-License-Identifier: Apache-2.0
// Operations that wait for their turn at the device: what somebody waits for goes before what is read ahead and what is
// written behind, each in the order in which it came.
//
//   waiting.push(operation);
//   while (waiting.may_start(started, depth)) start(waiting.pop());
//
// Reads ahead fill the depth. What somebody waits for may go beyond it by a quarter, so that it finds a place however
// many of them there are. One start in sixteen is of those that nobody waits for: they are late, but never wait for
// ever.
//
// Thread-safety: none; the engine's lock or its driving thread. Ownership: of nothing; operations are the caller's.
#pragma once

#include <algorithm>
#include <cstddef>

#include "headrace/io/engine.h"
#include "headrace/io/internal/operation_queue.h"

namespace headrace::io::internal {

class WaitingOperations {
 public:
  // What may be started at once at this depth, reads ahead or not.
  [[nodiscard]] static constexpr unsigned places(unsigned depth) { return depth + std::max(1U, depth / 4); }

  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return now_.size() + ahead_.size(); }
  void push(Operation& operation) { (is_wanted(operation) ? now_ : ahead_).push_back(operation); }
  // Somebody waits by now for some of those that were read ahead.
  void hurry() {
    OperationQueue before = ahead_.take();
    while (!before.empty()) push(before.pop_front());
  }
  [[nodiscard]] bool may_start(unsigned started, unsigned depth) const {
    return started < (now_.empty() ? depth : places(depth)) && !empty();
  }
  // Not empty.
  [[nodiscard]] Operation& pop() {
    constexpr unsigned kTurns = 16;
    const bool is_turn_of_ahead = ++starts_ % kTurns == 0 && !ahead_.empty();
    return is_turn_of_ahead || now_.empty() ? ahead_.pop_front() : now_.pop_front();
  }

 private:
  [[nodiscard]] static bool is_wanted(const Operation& operation) {
    return operation.wanted == nullptr || operation.wanted->load(std::memory_order_relaxed);
  }

  OperationQueue now_;
  OperationQueue ahead_;
  unsigned starts_ = 0;
};

}  // namespace headrace::io::internal
