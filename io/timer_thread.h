// SPDX-License-Identifier: Apache-2.0
// A thread that runs short tasks, now or at a later time: retries, deadlines, periodic work. Tasks of one time run in
// the order in which they came.
//
//   TimerThread timers("hr-timer");
//   timers.after(std::chrono::milliseconds(20), [] { ... });
//
// Thread-safety: after() from any thread, also from a task. stop() from one thread, which is not this one.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "headrace/io/mutex.h"

namespace headrace::io {

class TimerThread {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TimerThread(std::string name);
  ~TimerThread() { stop(); }
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  void after(Clock::duration delay, std::function<void()> task);
  // Runs all tasks that are left at once, on the thread, and joins it. Later calls of after() run their task at once,
  // on the caller's thread.
  void stop();

 private:
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::multimap<Clock::time_point, std::function<void()>> tasks_ HEADRACE_GUARDED_BY(mutex_);
  bool stopping_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool stopped_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace headrace::io
