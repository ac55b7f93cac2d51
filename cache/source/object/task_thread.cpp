// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/task_thread.h"

#include <utility>

#include <pthread.h>

namespace headrace::cache {

using io::MutexLock;

TaskThread::TaskThread(std::string name) {
  thread_ = std::thread([this, name = std::move(name)] {
    ::pthread_setname_np(::pthread_self(), name.c_str());
    run();
  });
}

void TaskThread::post(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      tasks_.push_back(std::move(task));
      if (tasks_.size() == 1) changed_.notify_one();
      return;
    }
  }
  task();
}

void TaskThread::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void TaskThread::run() {
  std::vector<std::function<void()>> batch;
  MutexLock lock(mutex_);
  while (true) {
    while (tasks_.empty() && !stopping_) changed_.wait(lock);
    if (tasks_.empty()) break;
    batch.swap(tasks_);
    lock.unlock();
    for (std::function<void()>& task : batch) std::exchange(task, {})();
    batch.clear();
    lock.lock();
  }
  stopped_ = true;
}

}  // namespace headrace::cache
