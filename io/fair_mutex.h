// SPDX-License-Identifier: Apache-2.0
// A mutex that comes first to those who wait, and not to whoever has just let go of it, which a Mutex mostly does: for
// loops that let go of it so that others get a turn.
//
//   FairLock lock(mutex_);
//
// Waiting takes turns with one more mutex.
#pragma once

#include <mutex>

#include "headrace/io/mutex.h"

namespace headrace::io {

class HEADRACE_CAPABILITY("mutex") FairMutex {
 public:
  void lock() HEADRACE_ACQUIRE() {
    const std::lock_guard next(next_);
    mutex_.lock();
  }
  void unlock() HEADRACE_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex next_;  // held by the one who waits, if anybody does
  std::mutex mutex_;
};

// Holds a FairMutex while it lives.
class HEADRACE_SCOPED_CAPABILITY FairLock {
 public:
  explicit FairLock(FairMutex& mutex) HEADRACE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~FairLock() HEADRACE_RELEASE() { mutex_.unlock(); }
  FairLock(const FairLock&) = delete;
  FairLock& operator=(const FairLock&) = delete;

 private:
  FairMutex& mutex_;
};

}  // namespace headrace::io
