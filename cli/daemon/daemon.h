// SPDX-License-Identifier: Apache-2.0
// Going to the background, telling whoever waits that all is ready, and ending on a signal.
//
//   StopSignal stop;                                          // before any thread is started
//   return run_detached({.log_name = "mnt.log"}, [&](const ReadyCallback& ready) -> io::Status {
//     ... start ...; ready(); stop.wait(); ... end ...; return {};
//   });
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "headrace/io/result.h"

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

using ReadyCallback = std::function<void()>;
using DaemonBody = std::function<io::Status(const ReadyCallback& ready)>;

struct DaemonOptions {
  // Name of the log file in log_directory(), used where there is no journal.
  std::string log_name;
};

// Runs `body` in a new session in the background. Returns when it calls ready(), or with its error when it ends
// before; a SIGINT or SIGTERM meanwhile ends the child. The child never returns from here: its exit status is 0 or 1.
// Must be called before the process has threads.
[[nodiscard]] io::Status run_detached(const DaemonOptions& options, const DaemonBody& body);

// Runs `body` here; ready() tells systemd ($NOTIFY_SOCKET, sd_notify(3)) if it listens.
[[nodiscard]] io::Status run_in_foreground(const DaemonBody& body);

}  // namespace headrace::cli
