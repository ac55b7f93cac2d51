// SPDX-License-Identifier: Apache-2.0
// Those who wait for a part of the RAM budget: first come, first served; reads for now before reads ahead.
//
// Nobody may wait here while he holds memory of the budget himself: several of that kind would wait for each other for
// ever. Who needs memory in several steps asks for all of it at once (a read that spans chunks: gathered_read.h).
//
// Thread-safety: every function from any thread. granted() and denied() of what had to wait run on the thread that
// `post` posts to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>

#include "headrace/cache/memory/ram_tier.h"
#include "headrace/io/mutex.h"
#include "headrace/io/result.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

// How long nothing may happen before requests are denied: no fetch and no write under way, no request granted. Then
// callers hold the whole budget in views and ask for more. 30 s: longer than a training step holds its batch.
inline constexpr std::chrono::seconds kMemoryWaitMax{30};
// From then on a read ahead may evict what is kept. 3 s: longer than most pauses of a training, which need no help.
inline constexpr std::chrono::seconds kStandstill{3};

// Ownership: the requester's, until granted() or denied() has run (exactly one of them, once).
class MemoryRequest {
 public:
  MemoryRequest(std::uint64_t bytes, bool ahead) : bytes_(bytes), ahead_(ahead) {}
  virtual ~MemoryRequest() = default;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // It may become a request for now while it waits: MemoryQueue::hurry().
  [[nodiscard]] virtual bool ahead() const { return ahead_; }

  virtual void granted() = 0;  // bytes() are reserved
  virtual void denied(io::Error error) = 0;

 private:
  std::uint64_t bytes_;
  bool ahead_;
};

class MemoryQueue {
 public:
  using Post = std::function<void(std::function<void()>)>;
  // `wait_max`: another one is for tests.
  MemoryQueue(RamTier& ram, io::TimerThread& timers, Post post, std::chrono::seconds wait_max = kMemoryWaitMax);

  // Errors (through denied()): kNoSpace (more than the whole budget), kBusy (nothing happened for `wait_max`),
  // kCancelled.
  void request(MemoryRequest& request);
  // Reserves the bytes if they are there now, and if nobody waits whose turn it is.
  [[nodiscard]] bool try_now(std::uint64_t bytes, bool ahead);
  // Whether reads for now wait.
  [[nodiscard]] bool is_crowded() const { return now_waits_.load(); }
  // A request that waits as one for a read ahead is none any more.
  void hurry();
  // Has the queue looked at: bytes became free or evictable.
  void pump_soon();
  // Of those that have their memory. While there are any, nobody is denied: how long they take is the device's affair.
  void on_fetch_begun() { transfers_.fetch_add(1); }
  void on_fetch_ended() { end_transfer(); }
  // The same of copies for a disk tier: content is pinned until it is written.
  void on_write_begun() { transfers_.fetch_add(1); }
  void on_write_ended() { end_transfer(); }
  // Denies what waits and what comes, with kCancelled.
  void close();

 private:
  using Requests = std::deque<MemoryRequest*>;

  [[nodiscard]] bool try_reserve(std::uint64_t bytes, bool ahead);
  void wait_in_line(MemoryRequest& request);
  void pump();
  [[nodiscard]] bool serve(MemoryRequest& request);
  [[nodiscard]] MemoryRequest* take_front();
  // False: the queue was closed, and the request has been denied.
  [[nodiscard]] bool put(MemoryRequest& request, bool at_front);
  [[nodiscard]] bool is_too_large(const MemoryRequest& request) const;
  void refuse(MemoryRequest& request) const;
  void end_transfer();
  void watch();
  void look_in_a_second();
  void look_for_standstill();
  [[nodiscard]] Requests take_if_standstill(bool moves) HEADRACE_REQUIRES(mutex_);

  RamTier& ram_;
  io::TimerThread& timers_;
  const Post post_;
  const std::chrono::seconds wait_max_;
  // These two: in a line, or at its front and being tried.
  std::atomic<std::size_t> waiting_ = 0;
  std::atomic<bool> now_waits_ = false;  // some of them for now
  std::atomic<bool> pump_posted_ = false;
  std::atomic<bool> closed_ = false;
  std::atomic<std::size_t> transfers_ = 0;        // fetches and writes under way
  std::atomic<bool> something_happened_ = false;  // since the last look of the timer
  std::atomic<bool> stands_still_ = false;        // reads ahead may evict what is kept, so that something happens
  io::Mutex mutex_;
  Requests now_ HEADRACE_GUARDED_BY(mutex_);
  Requests ahead_ HEADRACE_GUARDED_BY(mutex_);
  bool watching_ HEADRACE_GUARDED_BY(mutex_) = false;
  io::TimerThread::Clock::time_point quiet_since_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
