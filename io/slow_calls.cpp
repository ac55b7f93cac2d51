// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/slow_calls.h"

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::io {

struct SlowCalls::Shared {
  struct Task {
    std::function<void()> call;
    std::function<void()> then;
  };

  static void start(const std::shared_ptr<Shared>& self, const std::string& name, Task task)
      HEADRACE_REQUIRES(self->mutex);
  void work();
  [[nodiscard]] bool is_busy() const HEADRACE_REQUIRES(mutex) { return calls || !tasks.empty(); }
  [[nodiscard]] std::vector<std::function<void()>> take_followers() HEADRACE_REQUIRES(mutex);

  Mutex mutex;
  CondVar changed;
  std::deque<Task> tasks HEADRACE_GUARDED_BY(mutex);
  std::function<void()> then HEADRACE_GUARDED_BY(mutex);  // of the call that runs now; stop() may have taken it
  bool calls HEADRACE_GUARDED_BY(mutex) = false;          // one runs now
  bool follows HEADRACE_GUARDED_BY(mutex) = false;        // what follows one runs now
  bool stopping HEADRACE_GUARDED_BY(mutex) = false;
  std::thread thread HEADRACE_GUARDED_BY(mutex);
};

void SlowCalls::Shared::start(const std::shared_ptr<Shared>& self, const std::string& name, Task task) {
  self->tasks.push_back(std::move(task));
  self->changed.notify_all();
  if (self->thread.joinable()) return;
  self->thread = std::thread([self, name] {
    ::pthread_setname_np(::pthread_self(), name.c_str());
    self->work();
  });
}

void SlowCalls::Shared::work() {
  MutexLock lock(mutex);
  for (;;) {
    while (tasks.empty() && !stopping) changed.wait(lock);
    if (tasks.empty()) return;
    Task task = std::move(tasks.front());
    tasks.pop_front();
    then = std::move(task.then);
    calls = true;
    lock.unlock();
    task.call();
    task.call = nullptr;  // what it owns may take its time to go, too
    lock.lock();
    calls = false;
    if (std::function<void()> follower = std::exchange(then, {})) {
      follows = true;
      lock.unlock();
      follower();
      follower = nullptr;
      lock.lock();
      follows = false;
    }
    changed.notify_all();
  }
}

std::vector<std::function<void()>> SlowCalls::Shared::take_followers() {
  std::vector<std::function<void()>> followers;
  if (then) followers.push_back(std::exchange(then, {}));
  for (Task& task : tasks) {
    if (task.then) followers.push_back(std::exchange(task.then, {}));
  }
  return followers;
}

SlowCalls::SlowCalls(std::string name) : name_(std::move(name)), shared_(std::make_shared<Shared>()) {}

void SlowCalls::run(std::function<void()> call, std::function<void()> then) {
  {
    const MutexLock lock(shared_->mutex);
    if (!shared_->stopping) return Shared::start(shared_, name_, {std::move(call), std::move(then)});
  }
  call();
  if (then) then();
}

bool SlowCalls::run_if_idle(std::function<void()> call, std::function<void()> then) {
  const MutexLock lock(shared_->mutex);
  if (shared_->stopping || shared_->is_busy()) return false;
  Shared::start(shared_, name_, {std::move(call), std::move(then)});
  return true;
}

void SlowCalls::stop(std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  MutexLock lock(shared_->mutex);
  if (std::exchange(shared_->stopping, true)) return;
  shared_->changed.notify_all();
  while (shared_->is_busy() && std::chrono::steady_clock::now() < until) shared_->changed.wait_until(lock, until);
  const bool hangs = shared_->is_busy();
  const std::vector<std::function<void()>> followers = shared_->take_followers();
  while (shared_->follows) shared_->changed.wait(lock);
  std::thread thread = std::move(shared_->thread);
  lock.unlock();
  if (thread.joinable()) hangs ? thread.detach() : thread.join();
  if (hangs) log_warning("{}: a call to a file server or a name server hangs and is left alone", name_);
  for (const std::function<void()>& follower : followers) follower();
}

}  // namespace headrace::io
