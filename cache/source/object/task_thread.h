// SPDX-License-Identifier: Apache-2.0
// A thread that runs tasks in the order in which they come.
//
//   TaskThread thread("hr-source");
//   thread.post([] { ... });
//
// Thread-safety: post() from any thread, also from a task; stop() from one thread, which is not this one.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::cache {

class TaskThread {
 public:
  explicit TaskThread(std::string name);
  ~TaskThread() { stop(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // The queue has no bound of its own: whoever posts bounds what is under way.
  void post(std::function<void()> task);
  // Runs what is left, with what that posts, and joins the thread. Later tasks run at once, on the caller's thread.
  void stop();

 private:
  void run();

  io::Mutex mutex_;
  io::CondVar changed_;
  std::vector<std::function<void()>> tasks_ HEADRACE_GUARDED_BY(mutex_);
  bool stopping_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool stopped_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace headrace::cache
