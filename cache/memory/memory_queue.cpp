// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/memory/memory_queue.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace headrace::cache {

using io::ErrorCode;
using io::MutexLock;

MemoryQueue::MemoryQueue(RamTier& ram, io::TimerThread& timers, Post post, std::chrono::seconds wait_max)
    : ram_(ram), timers_(timers), post_(std::move(post)), wait_max_(wait_max) {}

void MemoryQueue::request(MemoryRequest& request) {
  if (closed_.load()) return request.denied({ErrorCode::kCancelled, 0, "read"});
  if (is_too_large(request)) return refuse(request);
  if (try_now(request.bytes(), request.ahead())) return request.granted();
  wait_in_line(request);
}

// Nobody overtakes those who wait already: a large request would never find enough. Reads ahead can wait longer.
bool MemoryQueue::try_now(std::uint64_t bytes, bool ahead) {
  const bool is_next = ahead ? waiting_.load() == 0 : !now_waits_.load();
  return is_next && try_reserve(bytes, ahead);
}

// Reading ahead does no harm: it never takes the place of what a prefetcher keeps, unless all would stand still.
bool MemoryQueue::try_reserve(std::uint64_t bytes, bool ahead) {
  return ram_.reserve(bytes, !ahead || stands_still_.load());
}

bool MemoryQueue::is_too_large(const MemoryRequest& request) const {
  const std::uint64_t budget = ram_.budget_bytes();
  return budget > 0 && request.bytes() > budget;
}

void MemoryQueue::refuse(MemoryRequest& request) const {
  request.denied({ErrorCode::kNoSpace, 0,
                  fmt::format("read: needs {} bytes in RAM, the budget is {}", request.bytes(), ram_.budget_bytes())});
}

void MemoryQueue::wait_in_line(MemoryRequest& request) {
  waiting_.fetch_add(1);
  if (!put(request, false)) return;
  ram_.want_space(true);
  watch();
  pump_soon();  // what was given back before want_space() told nobody
}

void MemoryQueue::hurry() {
  if (waiting_.load() == 0) return;
  {
    MutexLock lock(mutex_);
    const auto hurried = std::stable_partition(ahead_.begin(), ahead_.end(), [](auto* each) { return each->ahead(); });
    now_.insert(now_.end(), hurried, ahead_.end());
    ahead_.erase(hurried, ahead_.end());
    if (!now_.empty()) now_waits_.store(true);
  }
  pump_soon();
}

void MemoryQueue::end_transfer() {
  something_happened_.store(true);
  transfers_.fetch_sub(1);
}

void MemoryQueue::pump_soon() {
  if (closed_.load() || pump_posted_.exchange(true)) return;
  post_([this] { pump(); });
}

// On the posting thread only, so that whoever was at the front is still next when it is put back.
void MemoryQueue::pump() {
  pump_posted_.store(false);
  while (MemoryRequest* next = take_front()) {
    if (!serve(*next)) {
      static_cast<void>(put(*next, true));
      return;
    }
  }
}

// False: it has to wait on.
bool MemoryQueue::serve(MemoryRequest& request) {
  const bool is_refused = is_too_large(request);  // the budget was made smaller
  if (!is_refused && !try_reserve(request.bytes(), request.ahead())) return false;
  waiting_.fetch_sub(1);
  something_happened_.store(true);
  stands_still_.store(false);
  if (is_refused) {
    refuse(request);
  } else {
    request.granted();
  }
  return true;
}

MemoryRequest* MemoryQueue::take_front() {
  MutexLock lock(mutex_);
  now_waits_.store(!now_.empty());
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
  Requests& line = request.ahead() ? ahead_ : now_;
  line.insert(at_front ? line.begin() : line.end(), &request);
  if (!now_.empty()) now_waits_.store(true);
  return true;
}

void MemoryQueue::watch() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(watching_, true)) return;
    quiet_since_ = io::TimerThread::Clock::now();
  }
  look_in_a_second();
}

void MemoryQueue::look_in_a_second() {
  timers_.after(std::chrono::seconds(1), [this] {
    if (closed_.load()) return;
    post_([this] { look_for_standstill(); });
  });
}

// On the posting thread, as pump() is, so that no request is out of its line meanwhile.
void MemoryQueue::look_for_standstill() {
  const bool moves = something_happened_.exchange(false) || transfers_.load() > 0;
  Requests expired;
  bool left = false;
  {
    MutexLock lock(mutex_);
    expired = take_if_standstill(moves);
    left = watching_ = !now_.empty() || !ahead_.empty();
  }
  if (left) look_in_a_second();
  if (stands_still_.load()) pump_soon();
  for (MemoryRequest* request : expired) {
    request->denied({ErrorCode::kBusy, 0,
                     fmt::format("read: the RAM budget of {} bytes was full of pinned views for {} s",
                                 ram_.budget_bytes(), wait_max_.count())});
  }
}

MemoryQueue::Requests MemoryQueue::take_if_standstill(bool moves) {
  const auto now = io::TimerThread::Clock::now();
  if (moves) quiet_since_ = now;
  stands_still_.store(now - quiet_since_ >= kStandstill && !(now_.empty() && ahead_.empty()));
  if (now - quiet_since_ < wait_max_) return {};
  Requests expired = std::exchange(now_, {});
  expired.insert(expired.end(), ahead_.begin(), ahead_.end());
  ahead_.clear();
  now_waits_.store(false);
  waiting_.fetch_sub(expired.size());
  return expired;
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
