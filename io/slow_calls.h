// SPDX-License-Identifier: Apache-2.0
// A thread for calls that may hang: to open, stat or close a file of a server that has stopped answering takes until it
// answers, which may be never. Nothing else runs there, so that nothing else waits for it.
//
//   SlowCalls slow("hr-slow");
//   slow.run([path] { ::stat(...); }, [this] { ... });   // the second when the first has returned, or at stop()
//   const auto found = slow.within(6s, [name] { return look_up(name); });   // nullopt: not in this time
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
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "headrace/io/mutex.h"

namespace headrace::io {

class SlowCalls {
 public:
  explicit SlowCalls(std::string name);
  ~SlowCalls() { stop(); }
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;

  // After stop(): on the caller's thread.
  void run(std::function<void()> call, std::function<void()> then = {});
  // What `call` returns. nullopt: it takes longer, or a call from before still does, or stop() came; what it returns in
  // the end is thrown away.
  template <typename Call>
  auto within(std::chrono::milliseconds patience, Call call) -> std::optional<std::invoke_result_t<Call>>;
  // Waits for the calls that are left, `patience` at most. 2 s: a server that answers has closed some hundred files
  // by then, and whoever ends a mount waits for it.
  void stop(std::chrono::milliseconds patience = std::chrono::milliseconds(2'000));

 private:
  struct Shared;

  // False: a call from before still runs, or stop() came. Then neither of the two has run, nor will.
  [[nodiscard]] bool run_if_idle(std::function<void()> call, std::function<void()> then);

  const std::string name_;
  const std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this
};

template <typename Call>
auto SlowCalls::within(std::chrono::milliseconds patience, Call call) -> std::optional<std::invoke_result_t<Call>> {
  struct Answer {
    Mutex mutex;
    CondVar ended;
    bool has_ended HEADRACE_GUARDED_BY(mutex) = false;
    std::optional<std::invoke_result_t<Call>> value HEADRACE_GUARDED_BY(mutex);
  };
  const auto until = std::chrono::steady_clock::now() + patience;
  const auto answer = std::make_shared<Answer>();
  const bool runs = run_if_idle(
      [answer, call = std::move(call)] {
        auto value = call();
        const MutexLock lock(answer->mutex);
        answer->value.emplace(std::move(value));
      },
      [answer] {
        const MutexLock lock(answer->mutex);
        answer->has_ended = true;
        answer->ended.notify_all();
      });
  if (!runs) return std::nullopt;
  MutexLock lock(answer->mutex);
  while (!answer->has_ended && answer->ended.wait_until(lock, until)) {
  }
  return std::exchange(answer->value, std::nullopt);
}

}  // namespace headrace::io
