// SPDX-License-Identifier: Apache-2.0
// Lets a command wait for the signals that tell it to stop.
//
//   StopSignal stop;                                          // before any thread is started
//   const OnStop on_stop(stop, [&] { reader->cancel(); });
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "headrace/io/wake_event.h"

namespace headrace::cli {

// Turns SIGTERM, SIGINT and SIGHUP into something to wait for. It blocks them for the calling thread and for the
// threads that this thread starts afterwards, so make it first. Its destructor lets them act as before; a signal that
// came meanwhile is used up.
// Thread-safety: request() from any thread; destruction by the thread that made it.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Returns when a signal came or request() was called.
  void wait();
  // False when the time passed without a signal or request().
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time);
  void request();
  // Readable once a signal has come.
  [[nodiscard]] int descriptor() const { return signal_fd_; }

 private:
  friend class OnStop;
  void withdraw_request();

  sigset_t signals_before_ = {};
  int signal_fd_ = -1;
  io::WakeEvent request_;
};

// Runs `action` once, on a thread of its own, when the signal comes: this ends a job that blocks the main thread.
// Thread-safety: stopped() from any thread. The destructor waits for the action if it runs.
class OnStop {
 public:
  OnStop(StopSignal& stop, std::function<void()> action);
  ~OnStop();
  OnStop(const OnStop&) = delete;
  OnStop& operator=(const OnStop&) = delete;
  [[nodiscard]] bool stopped() const { return stopped_.load(); }

 private:
  StopSignal& stop_;
  std::atomic<bool> ended_{false};  // by the destructor, not by a signal
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

// For work that cannot be cancelled and would lose nothing, such as the scan of millions of files. While it lives, a
// signal ends the process as if nobody had waited for the signal.
class EndOnStop {
 public:
  explicit EndOnStop(StopSignal& stop);

 private:
  OnStop on_stop_;
};

// For a process that ends with its job, and stops that job by other means than a StopSignal: from now on SIGTERM,
// SIGINT and SIGHUP end nothing by themselves. One that comes when the job is done would end the process with a
// failure, and leave behind what is still to be cleaned up. Call it before any thread is started.
void hold_stop_signals();

// The last signal that a StopSignal of this process got, or that was noted; 0: none so far.
[[nodiscard]] int last_stop_signal();
// For code that takes signals without a StopSignal.
void note_stop_signal(int signal);

}  // namespace headrace::cli
