// SPDX-License-Identifier: Apache-2.0
// A bounded queue between threads: Boost.Lockfree's ring of nodes, and an event count that idle threads sleep on.
//
//   BoundedQueue<Task> queue(64);
//   queue.push(task);                  // sleeps if the queue is full, until it is half empty; false once it is closed
//   while (queue.pop(task)) run(task); // sleeps while it is empty; false once it is closed and drained
//
// Producers and consumers: any number of each. An item moves without a lock; only a thread that finds the queue full or
// empty makes a system call. Items are trivially copyable, as Boost asks.
//
// Thread-safety: every function from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

#include <boost/lockfree/queue.hpp>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace headrace::decode {

// Lets threads sleep until "something changed" without a lock around the change.
//
// A waiter announces itself, looks once more, and sleeps only if nothing was announced since; a notifier makes its
// change first and looks for waiters afterwards. Both touch waiters_ with a read-modify-write, so one of the two comes
// first, and the other one sees what it did.
class EventCount {
 public:
  // Returns once done() is true; done() runs on this thread, again after each notification.
  template <typename Done>
  void await(Done done) {
    while (!done()) {
      waiters_.fetch_add(1);
      const std::uint32_t epoch = epoch_.load();
      const bool already = done();
      if (!already) sleep_while(epoch);
      waiters_.fetch_sub(1);
      if (already) return;
    }
  }

  void notify_one() {
    if (announce()) wake(1);
  }
  void notify_all() {
    if (announce()) wake(INT_MAX);
  }

 private:
  bool announce() {
    if (waiters_.fetch_add(0) == 0) return false;
    epoch_.fetch_add(1);
    return true;
  }

  // futex(2) itself: std::atomic's wait() gives up the processor again and again before it sleeps, which on a busy
  // machine made a hand-over ten times slower (bench decode/queue, 2026-11-20). An early return is caught by await().
  void sleep_while(std::uint32_t epoch) {
    ::syscall(SYS_futex, &epoch_, FUTEX_WAIT_PRIVATE, epoch, nullptr, nullptr, 0);
  }
  void wake(int threads) { ::syscall(SYS_futex, &epoch_, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0); }

  std::atomic<std::uint32_t> epoch_ = 0;
  static_assert(sizeof(epoch_) == 4 && std::atomic<std::uint32_t>::is_always_lock_free, "what a futex is");
  std::atomic<std::uint32_t> waiters_ = 0;
};

template <typename T>
class BoundedQueue {
 public:
  // `capacity`: how many items fit; their nodes are allocated here and never again.
  explicit BoundedQueue(std::size_t capacity)
      : items_(capacity), low_depth_(static_cast<std::ptrdiff_t>(capacity / 2)) {}

  // False: closed, the item was not taken.
  bool push(const T& item) {
    bool pushed = false;
    not_full_.await([&] { return closed() || (pushed = items_.bounded_push(item)); });
    if (!pushed) return false;
    depth_.fetch_add(1, std::memory_order_relaxed);
    not_empty_.notify_one();
    return true;
  }

  // False: closed, and every item was taken.
  bool pop(T& item) {
    bool popped = false;
    not_empty_.await([&] { return (popped = items_.pop(item)) || closed(); });
    if (!popped && !items_.pop(item)) return false;  // once more: it may have been pushed just before the closing
    // A producer that waits is woken at half a queue, not at each item: waking costs the consumer more than the item
    // does. It is woken for certain, because consumers go on until the queue is empty.
    if (depth_.fetch_sub(1, std::memory_order_relaxed) - 1 <= low_depth_) not_full_.notify_one();
    return true;
  }

  // Ends push() now and pop() when the queue is drained.
  void close() {
    closed_.store(true);
    not_full_.notify_all();
    not_empty_.notify_all();
  }
  [[nodiscard]] bool closed() const { return closed_.load(); }
  // A moment's figure, for reports.
  [[nodiscard]] std::size_t depth() const {
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, depth_.load(std::memory_order_relaxed)));
  }

 private:
  boost::lockfree::queue<T> items_;
  const std::ptrdiff_t low_depth_;
  EventCount not_full_;
  EventCount not_empty_;
  std::atomic<std::ptrdiff_t> depth_ = 0;  // may be off by the items that are just moving
  std::atomic<bool> closed_ = false;
};

}  // namespace headrace::decode
