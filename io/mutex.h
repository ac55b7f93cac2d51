// SPDX-License-Identifier: Apache-2.0
// A mutex, its scoped lock and its condition variable, annotated for clang's -Wthread-safety.
//
//   Mutex mutex_;
//   int waiting_ HEADRACE_GUARDED_BY(mutex_) = 0;
//   ...
//   MutexLock lock(mutex_);
//   while (waiting_ == 0) changed_.wait(lock);
//
// Who may not wait tries: if (mutex_.try_lock()) { ...; mutex_.unlock(); }
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define HEADRACE_ATTRIBUTE(x) __attribute__((x))
#else
#define HEADRACE_ATTRIBUTE(x)
#endif
#define HEADRACE_CAPABILITY(x) HEADRACE_ATTRIBUTE(capability(x))
#define HEADRACE_SCOPED_CAPABILITY HEADRACE_ATTRIBUTE(scoped_lockable)
#define HEADRACE_GUARDED_BY(x) HEADRACE_ATTRIBUTE(guarded_by(x))
#define HEADRACE_REQUIRES(...) HEADRACE_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define HEADRACE_EXCLUDES(...) HEADRACE_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define HEADRACE_ACQUIRE(...) HEADRACE_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HEADRACE_TRY_ACQUIRE(...) HEADRACE_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define HEADRACE_RELEASE(...) HEADRACE_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace headrace::io {

class HEADRACE_CAPABILITY("mutex") Mutex {
 public:
  void lock() HEADRACE_ACQUIRE() { mutex_.lock(); }
  void unlock() HEADRACE_RELEASE() { mutex_.unlock(); }
  // False: somebody holds it.
  [[nodiscard]] bool try_lock() HEADRACE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a Mutex while it lives; unlock() and lock() let go of it in between.
class HEADRACE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HEADRACE_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() HEADRACE_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() HEADRACE_RELEASE() { lock_.unlock(); }
  void lock() HEADRACE_ACQUIRE() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

class CondVar {
 public:
  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  // False when the deadline passed first.
  bool wait_until(MutexLock& lock, std::chrono::steady_clock::time_point deadline) {
    return condition_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace headrace::io
