// SPDX-License-Identifier: Apache-2.0
// A ring of reusable items that are filled in any order and taken out in the order in which they were given out.
//
//   Item* item = ring.acquire();          // feeder: sleeps until one is free
//   ring.complete(*item);                 // whoever filled it
//   while (Item* item = ring.front()) {   // consumer: sleeps until the next one in order is complete
//     use(*item);
//     ring.release();
//   }
//   if (!ring.await_front(deadline)) ...  // front() would sleep still
//
// The number of items bounds what is under way: with none free the feeder sleeps, which holds back the reader.
//
// Thread-safety: one feeder (acquire, finish), one consumer (await_front, front, release), any number of fillers
// (complete); close() from any thread. Ownership: items belong to the ring and live as long as it does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::decode {

template <typename Item>
class OrderedRing {
 public:
  explicit OrderedRing(std::size_t item_count) : items_(item_count), complete_(item_count, false) {}

  // All items, by place. For setting them up before the threads start, and for finding one by its place.
  [[nodiscard]] std::vector<Item>& items() { return items_; }
  [[nodiscard]] std::size_t place_of(const Item& item) const { return static_cast<std::size_t>(&item - items_.data()); }

  // nullptr: closed.
  [[nodiscard]] Item* acquire() {
    io::MutexLock lock(mutex_);
    while (!closed_ && given_ - taken_ == items_.size()) changed_for_feeder_.wait(lock);
    return closed_ ? nullptr : &items_[given_++ % items_.size()];
  }

  // What was filled before is visible to whoever gets the item from front().
  void complete(const Item& item) {
    const std::size_t place = place_of(item);
    io::MutexLock lock(mutex_);
    complete_[place] = true;
    if (place == taken_ % items_.size()) changed_for_consumer_.notify_one();
  }

  // No acquire() follows: front() ends after the last item.
  void finish() {
    io::MutexLock lock(mutex_);
    finished_ = true;
    changed_for_consumer_.notify_one();
  }

  // The same item until release(). nullptr: finished and all taken, or closed.
  [[nodiscard]] Item* front() {
    io::MutexLock lock(mutex_);
    while (!is_front_known()) changed_for_consumer_.wait(lock);
    const std::size_t place = taken_ % items_.size();
    return !closed_ && complete_[place] ? &items_[place] : nullptr;
  }

  // Sleeps until front() would not. False: the deadline passed first.
  [[nodiscard]] bool await_front(std::chrono::steady_clock::time_point deadline) {
    io::MutexLock lock(mutex_);
    while (!is_front_known()) {
      if (!changed_for_consumer_.wait_until(lock, deadline)) return is_front_known();
    }
    return true;
  }

  void release() {
    io::MutexLock lock(mutex_);
    complete_[taken_ % items_.size()] = false;
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
  [[nodiscard]] bool is_front_known() const HEADRACE_REQUIRES(mutex_) {
    return closed_ || complete_[taken_ % items_.size()] || (finished_ && taken_ == given_);
  }

  std::vector<Item> items_;  // each belongs to one party at a time, as the protocol above says
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
