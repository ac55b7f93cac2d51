// SPDX-License-Identifier: Apache-2.0
// Signals that tell a command to stop, as something to wait for.
//
//   StopSignal stop;                                          // before any thread is started
//   const OnStop on_stop(stop, [&] { reader->cancel(); });
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

namespace headrace::cli {

// Turns SIGTERM, SIGINT and SIGHUP into something to wait for. Blocks them for the calling thread and the threads it
// starts afterwards, so make it first. Afterwards they act as they did before; one that came meanwhile is spent.
// Thread-safety: request() from any thread; destruction by the thread that made it.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Returns when a signal came or request() was called.
  void wait();
  // False when the time passed without one.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time);
  void request();
  // Readable once a signal has come.
  [[nodiscard]] int descriptor() const { return signal_fd_; }

 private:
  friend class OnStop;
  void withdraw_request();

  sigset_t signals_before_ = {};
  int signal_fd_ = -1;
  int request_fd_ = -1;
};

// Runs `action` on a thread of its own when the signal comes, once; the way to end a job that blocks the main thread.
// Thread-safety: stopped() from any thread. Destruction waits for the action, if it runs.
class OnStop {
 public:
  OnStop(StopSignal& stop, std::function<void()> action);
  ~OnStop();
  OnStop(const OnStop&) = delete;
  OnStop& operator=(const OnStop&) = delete;
  [[nodiscard]] bool stopped() const { return stopped_.load(); }

 private:
  StopSignal& stop_;
  std::atomic<bool> ended_{false};  // by destruction, not by a signal
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

// For what cannot be cancelled and would lose nothing, such as looking through a data set of millions of files: while
// it lives, a signal ends the process as if nobody had waited for it.
class EndOnStop {
 public:
  explicit EndOnStop(StopSignal& stop);

 private:
  OnStop on_stop_;
};

// The signal that a StopSignal of this process got last, or that was noted; 0: none so far.
[[nodiscard]] int last_stop_signal();
// For whoever takes signals without a StopSignal.
void note_stop_signal(int signal);

}  // namespace headrace::cli
