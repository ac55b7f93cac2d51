// SPDX-License-Identifier: Apache-2.0
// Tells a thread that waits for a socket or a pipe that nobody needs the answer any more.
//
//   StopEvent stop;
//   find_keys({.stop = &stop, ...});   // on another thread: kCancelled, soon after
//   stop.set();
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>

#include "headrace/io/wake_event.h"

namespace headrace::cache {

class StopEvent {
 public:
  // Without a descriptor for it whoever waits finds out at the end of its own wait.

  void set() {
    is_set_.store(true);
    event_.set();
  }
  [[nodiscard]] bool is_set() const { return is_set_.load(); }
  // Readable from set() on. Nobody reads from it.
  [[nodiscard]] int fd() const { return event_.fd(); }

 private:
  std::atomic<bool> is_set_ = false;
  const io::WakeEvent event_;
};

}  // namespace headrace::cache
