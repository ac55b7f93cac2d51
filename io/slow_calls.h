// SPDX-License-Identifier: Apache-2.0
// A thread for calls that may hang: to open, stat or close a file of a server that has stopped answering takes until it
// answers, which may be never. Nothing else runs there, so that nothing else waits for it.
//
//   SlowCalls slow("hr-slow");
//   slow.run([path] { ::stat(...); }, [this] { ... });   // the second when the first has returned, or at stop()
//
// Calls run one after the other. The thread begins with the first one.
//
// Thread-safety: run() from any thread. stop() from one thread, which is not this one.
// Ownership: what hangs at stop() is left to itself, so that a call may touch only what it owns. The function that
// follows it may touch more: it has run when stop() returns.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace headrace::io {

class SlowCalls {
 public:
  explicit SlowCalls(std::string name);
  ~SlowCalls() { stop(); }
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;

  // After stop(): on the caller's thread.
  void run(std::function<void()> call, std::function<void()> then = {});
  // Waits for the calls that are left, `patience` at most. 2 s: a server that answers has closed some hundred files
  // by then, and whoever ends a mount waits for it.
  void stop(std::chrono::milliseconds patience = std::chrono::milliseconds(2'000));

 private:
  struct Shared;

  const std::string name_;
  const std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this
};

}  // namespace headrace::io
