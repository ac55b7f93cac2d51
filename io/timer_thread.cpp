// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/timer_thread.h"

#include <utility>

#include <pthread.h>

namespace headrace::io {

TimerThread::TimerThread(std::string name) {
  thread_ = std::thread([this, name = std::move(name)] {
    ::pthread_setname_np(::pthread_self(), name.c_str());
    run();
  });
}

void TimerThread::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void TimerThread::after(Clock::duration delay, std::function<void()> task) {
  std::multimap<Clock::time_point, std::function<void()>> node;  // made before the lock is taken
  node.emplace(Clock::now() + delay, std::move(task));
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      tasks_.merge(node);
      changed_.notify_one();
      return;
    }
  }
  node.begin()->second();
}

void TimerThread::run() {
  MutexLock lock(mutex_);
  while (!stopping_ || !tasks_.empty()) {
    if (tasks_.empty()) {
      changed_.wait(lock);
    } else if (!stopping_ && tasks_.begin()->first > Clock::now()) {
      changed_.wait_until(lock, tasks_.begin()->first);
    } else {
      auto due = tasks_.extract(tasks_.begin());
      lock.unlock();
      due.mapped()();
      lock.lock();
    }
  }
  stopped_ = true;
}

}  // namespace headrace::io
