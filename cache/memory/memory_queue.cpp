// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/memory/memory_queue.h"

#include <utility>

#include <fmt/format.h>

namespace headrace::cache {

using io::ErrorCode;
using io::MutexLock;

MemoryQueue::MemoryQueue(RamTier& ram, io::TimerThread& timers, Post post)
    : ram_(ram), timers_(timers), post_(std::move(post)) {}

void MemoryQueue::request(MemoryRequest& request) {
  if (closed_.load()) return request.denied({ErrorCode::kCancelled, 0, "read"});
  if (ram_.budget_bytes() > 0 && request.bytes() > ram_.budget_bytes()) {
    return request.denied(
        {ErrorCode::kNoSpace, 0,
         fmt::format("read: needs {} bytes in RAM, the budget is {}", request.bytes(), ram_.budget_bytes())});
  }
  // Nobody overtakes those who wait already: a large request would never find enough.
  if (waiting_.load() == 0 && try_reserve(request)) return request.granted();
  wait_in_line(request);
}

// Reading ahead does no harm: it never takes the place of what a prefetcher keeps.
bool MemoryQueue::try_reserve(const MemoryRequest& request) {
  return ram_.reserve(request.bytes(), !request.ahead());
}

void MemoryQueue::wait_in_line(MemoryRequest& request) {
  request.deadline_ = io::TimerThread::Clock::now() + kMemoryWaitMax;
  waiting_.fetch_add(1);
  if (!put(request, false)) return;
  ram_.want_space(true);
  watch_deadlines();
  pump_soon();  // what was given back before want_space() told nobody
}

void MemoryQueue::pump_soon() {
  if (closed_.load() || pump_posted_.exchange(true)) return;
  post_([this] { pump(); });
}

// On the posting thread only, so that whoever was at the front is still next when it is put back.
void MemoryQueue::pump() {
  pump_posted_.store(false);
  while (MemoryRequest* next = take_front()) {
    if (!try_reserve(*next)) {
      static_cast<void>(put(*next, true));
      return;
    }
    waiting_.fetch_sub(1);
    next->granted();
  }
}

MemoryRequest* MemoryQueue::take_front() {
  MutexLock lock(mutex_);
  Requests& line = now_.empty() ? ahead_ : now_;
  if (line.empty()) {
    ram_.want_space(false);
    return nullptr;
  }
  MemoryRequest* front = line.front();
  line.pop_front();
  return front;
}

bool MemoryQueue::put(MemoryRequest& request, bool at_front) {
  MutexLock lock(mutex_);
  if (closed_.load()) {
    lock.unlock();
    request.denied({ErrorCode::kCancelled, 0, "read"});
    return false;
  }
  Requests& line = line_of(request);
  line.insert(at_front ? line.begin() : line.end(), &request);
  return true;
}

void MemoryQueue::watch_deadlines() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(watching_, true)) return;
  }
  timers_.after(std::chrono::seconds(1), [this] {
    if (closed_.load()) return;
    post_([this] { deny_expired(); });
  });
}

void MemoryQueue::deny_expired() {
  const auto now = io::TimerThread::Clock::now();
  Requests expired;
  bool left = false;
  {
    MutexLock lock(mutex_);
    for (Requests* line : {&now_, &ahead_}) {
      while (!line->empty() && line->front()->deadline_ <= now) {
        expired.push_back(line->front());
        line->pop_front();
        waiting_.fetch_sub(1);
      }
      left |= !line->empty();
    }
    watching_ = false;
  }
  if (left) watch_deadlines();
  for (MemoryRequest* request : expired) {
    request->denied({ErrorCode::kBusy, 0,
                     fmt::format("read: the RAM budget of {} bytes was full of pinned views for {} s",
                                 ram_.budget_bytes(), kMemoryWaitMax.count())});
  }
}

void MemoryQueue::close() {
  Requests all;
  {
    MutexLock lock(mutex_);
    closed_.store(true);
    all.swap(now_);
    all.insert(all.end(), ahead_.begin(), ahead_.end());
    ahead_.clear();
  }
  for (MemoryRequest* request : all) request->denied({ErrorCode::kCancelled, 0, "read"});
}

}  // namespace headrace::cache
