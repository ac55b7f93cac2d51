// SPDX-License-Identifier: Apache-2.0
// A ring of reusable slots that are filled in any order and taken out in the order in which they were given out.
//
//   Slot* slot = ring.acquire();          // feeder: sleeps until one is free
//   ring.complete(*slot);                 // whoever filled it
//   while (Slot* slot = ring.front()) {   // consumer: sleeps until the next one in order is complete
//     use(*slot);
//     ring.release();
//   }
//
// The number of slots bounds what is under way: with no free slot the feeder sleeps, which holds back the reader.
//
// Thread-safety: one feeder (acquire, finish), one consumer (front, release), any number of fillers (complete);
// close() from any thread. Ownership: slots belong to the ring and live as long as it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::decode {

template <typename Slot>
class SlotRing {
 public:
  explicit SlotRing(std::size_t slot_count) : slots_(slot_count), complete_(slot_count, false) {}

  [[nodiscard]] std::size_t slot_count() const { return slots_.size(); }
  // For setting slots up before the threads start.
  [[nodiscard]] std::vector<Slot>& slots() { return slots_; }

  // nullptr: closed.
  [[nodiscard]] Slot* acquire() {
    io::MutexLock lock(mutex_);
    while (!closed_ && given_ - taken_ == slots_.size()) changed_for_feeder_.wait(lock);
    return closed_ ? nullptr : &slots_[given_++ % slots_.size()];
  }

  // What was filled before is visible to whoever gets the slot from front().
  void complete(const Slot& slot) {
    const auto place = static_cast<std::size_t>(&slot - slots_.data());
    io::MutexLock lock(mutex_);
    complete_[place] = true;
    if (place == taken_ % slots_.size()) changed_for_consumer_.notify_one();
  }

  // No acquire() follows: front() ends after the last slot.
  void finish() {
    io::MutexLock lock(mutex_);
    finished_ = true;
    changed_for_consumer_.notify_one();
  }

  // The same slot until release(). nullptr: finished and all taken, or closed.
  [[nodiscard]] Slot* front() {
    io::MutexLock lock(mutex_);
    for (;;) {
      const std::size_t place = taken_ % slots_.size();
      if (closed_ || (finished_ && taken_ == given_)) return nullptr;
      if (complete_[place]) return &slots_[place];
      changed_for_consumer_.wait(lock);
    }
  }

  void release() {
    io::MutexLock lock(mutex_);
    complete_[taken_ % slots_.size()] = false;
    ++taken_;
    changed_for_feeder_.notify_one();
  }

  // Ends acquire() and front(), now and later.
  void close() {
    io::MutexLock lock(mutex_);
    closed_ = true;
    changed_for_feeder_.notify_one();
    changed_for_consumer_.notify_one();
  }

 private:
  std::vector<Slot> slots_;  // each belongs to one party at a time, as the protocol above says
  io::Mutex mutex_;
  io::CondVar changed_for_feeder_;
  io::CondVar changed_for_consumer_;
  std::vector<bool> complete_ HEADRACE_GUARDED_BY(mutex_);
  std::uint64_t given_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t taken_ HEADRACE_GUARDED_BY(mutex_) = 0;
  bool finished_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool closed_ HEADRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace headrace::decode
