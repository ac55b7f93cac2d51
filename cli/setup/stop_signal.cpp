// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/stop_signal.h"

#include <cstdint>
#include <utility>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "headrace/io/result.h"

namespace headrace::cli {
namespace {

sigset_t stop_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  return signals;
}

std::atomic<int> last_signal{0};

void take_signals(int signal_fd) {
  signalfd_siginfo taken{};
  while (::read(signal_fd, &taken, sizeof taken) > 0) last_signal = static_cast<int>(taken.ssi_signo);
}

// Ends the process as the signal does where nobody waits for it.
void end_by(int signal) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, signal);
  ::signal(signal, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  ::raise(signal);
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, &signals_before_);
  signal_fd_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  HEADRACE_ASSERT(signal_fd_ >= 0 && request_.valid());
}

StopSignal::~StopSignal() {
  take_signals(signal_fd_);
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
  ::close(signal_fd_);
}

void StopSignal::wait() {
  while (!wait_for(std::chrono::hours(1))) {
  }
}

bool StopSignal::wait_for(std::chrono::milliseconds time) {
  pollfd watched[] = {{signal_fd_, POLLIN, 0}, {request_.fd(), POLLIN, 0}};
  return ::poll(watched, 2, static_cast<int>(time.count())) > 0;
}

void StopSignal::request() {
  request_.set();
}

void StopSignal::withdraw_request() {
  request_.clear();
}

OnStop::OnStop(StopSignal& stop, std::function<void()> action)
    : stop_(stop), thread_([this, action = std::move(action)] {
        ::pthread_setname_np(::pthread_self(), "hr-stop");
        stop_.wait();
        if (ended_) return;
        stopped_ = true;
        action();
      }) {}

OnStop::~OnStop() {
  ended_ = true;
  stop_.request();
  thread_.join();
  stop_.withdraw_request();
}

EndOnStop::EndOnStop(StopSignal& stop)
    : on_stop_(stop, [&stop] {
        take_signals(stop.descriptor());
        end_by(last_stop_signal());
      }) {}

void hold_stop_signals() {
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int last_stop_signal() {
  return last_signal.load();
}

void note_stop_signal(int signal) {
  last_signal = signal;
}

}  // namespace headrace::cli
