// SPDX-License-Identifier: Apache-2.0
// A thread that runs short tasks later: retries, deadlines, periodic work.
//
//   TimerThread timers("hr-timer");
//   timers.after(std::chrono::milliseconds(20), [] { ... });
//
// Thread-safety: after() from any thread, tasks included.
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
  // Runs what is left at once, on the thread, and joins it. From then on after() runs its task on the caller, at once.
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
