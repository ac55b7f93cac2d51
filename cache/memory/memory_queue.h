// SPDX-License-Identifier: Apache-2.0
// Those who wait for a part of the RAM budget, first come first served; reads for now before reads ahead.
//
// Thread-safety: request(), pump_soon() from any thread. granted() and denied() of what had to wait run on the thread
// that `post` posts to.
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

// 30 s: longer than a training step holds its batch, shorter than anybody waits before suspecting a dead lock.
inline constexpr std::chrono::seconds kMemoryWaitMax{30};

// Ownership: the requester's, until granted() or denied() has run (exactly one of them, once).
class MemoryRequest {
 public:
  MemoryRequest(std::uint64_t bytes, bool ahead) : bytes_(bytes), ahead_(ahead) {}
  virtual ~MemoryRequest() = default;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool ahead() const { return ahead_; }

  virtual void granted() = 0;  // bytes() are reserved
  virtual void denied(io::Error error) = 0;

 private:
  friend class MemoryQueue;
  std::uint64_t bytes_;
  bool ahead_;
  io::TimerThread::Clock::time_point deadline_ = {};
};

class MemoryQueue {
 public:
  using Post = std::function<void(std::function<void()>)>;
  MemoryQueue(RamTier& ram, io::TimerThread& timers, Post post);

  // Errors (through denied()): kNoSpace (more than the whole budget), kBusy (waited kMemoryWaitMax), kCancelled.
  void request(MemoryRequest& request);
  // Has the queue looked at: bytes became free or evictable.
  void pump_soon();
  // Denies what waits and what comes, with kCancelled.
  void close();

 private:
  using Requests = std::deque<MemoryRequest*>;

  [[nodiscard]] bool try_reserve(const MemoryRequest& request);
  void wait_in_line(MemoryRequest& request);
  void pump();
  [[nodiscard]] MemoryRequest* take_front();
  // False: the queue was closed, and the request has been denied.
  [[nodiscard]] bool put(MemoryRequest& request, bool at_front);
  void watch_deadlines();
  void deny_expired();
  [[nodiscard]] Requests& line_of(const MemoryRequest& request) HEADRACE_REQUIRES(mutex_) {
    return request.ahead() ? ahead_ : now_;
  }

  RamTier& ram_;
  io::TimerThread& timers_;
  const Post post_;
  std::atomic<std::size_t> waiting_ = 0;  // in a line, or at its front and being tried
  std::atomic<bool> pump_posted_ = false;
  std::atomic<bool> closed_ = false;
  io::Mutex mutex_;
  Requests now_ HEADRACE_GUARDED_BY(mutex_);
  Requests ahead_ HEADRACE_GUARDED_BY(mutex_);
  bool watching_ HEADRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace headrace::cache
