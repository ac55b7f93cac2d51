// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/supervisor.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/log.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {
using io::ErrorCode;
using std::chrono::steady_clock;

namespace {

// What the worker says through its pipe: that it is ready, or, last, the error it ends with.
constexpr char kReady = 'R';
constexpr char kError = 'E';
// Longer than a worker takes to end in order (Mount::stop() takes less than a second, a tier's checkpoint a few).
constexpr std::chrono::seconds kPatienceAfterStop{10};

sigset_t signals_to_watch() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&signals, signal);
  return signals;
}

std::string encode(const io::Error& error) {
  return kError + std::string(1, static_cast<char>(error.code)) + std::to_string(error.os_errno) + "\n" + error.context;
}

io::Error decode(const std::string& text) {
  const std::size_t line_end = text.find('\n');
  if (text.size() < 3 || line_end == std::string::npos) return {ErrorCode::kSystem, 0, "the worker of the mount"};
  return {static_cast<ErrorCode>(text[1]), std::atoi(text.substr(2, line_end - 2).c_str()), text.substr(line_end + 1)};
}

class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, Channel& channel)
      : options_(options), channel_(channel), watched_(signals_to_watch()) {}
  ~Supervisor() { ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr); }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  Status run();

 private:
  enum class Outcome : std::uint8_t { kEnded, kDied };

  Status start_worker();
  [[noreturn]] void be_worker(int report_fd);
  Result<Outcome> await_worker();
  void take_signal();
  void read_report();
  Result<Outcome> judge(int wait_status);
  bool may_restart();

  const SupervisorOptions& options_;
  Channel& channel_;
  const sigset_t watched_;
  sigset_t signals_before_ = {};
  io::UniqueFd signal_fd_;
  io::UniqueFd report_;  // the read end of the worker's pipe
  std::string error_;    // what the worker reported, encoded
  pid_t worker_ = -1;
  bool announced_ = false;
  bool stopping_ = false;
  steady_clock::time_point kill_at_ = steady_clock::time_point::max();
  std::deque<steady_clock::time_point> deaths_;
};

Status Supervisor::run() {
  ::pthread_sigmask(SIG_BLOCK, &watched_, &signals_before_);
  signal_fd_ = io::UniqueFd(::signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signal_fd_.get() < 0) return io::system_error(errno, "signalfd");
  while (true) {
    if (Status started = start_worker(); !started) return started;
    const Result<Outcome> outcome = await_worker();
    if (!outcome) return tl::unexpected(outcome.error());
    if (*outcome == Outcome::kEnded) return {};
    if (!may_restart()) return io::make_error(ErrorCode::kSystem, "the worker of the mount died");
  }
}

Status Supervisor::start_worker() {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io::system_error(errno, "pipe");
  report_ = io::UniqueFd(ends[0]);
  io::UniqueFd write_end(ends[1]);
  error_.clear();
  const pid_t supervisor = ::getpid();
  std::fflush(nullptr);  // or the child writes once more what is not written yet
  worker_ = ::fork();
  if (worker_ < 0) return io::system_error(errno, "fork");
  if (worker_ > 0) return {};

  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != supervisor) ::_exit(1);  // it died before the request took effect
  report_.reset();
  signal_fd_.reset();
  be_worker(write_end.get());
}

void Supervisor::be_worker(int report_fd) {
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
  const auto report = [report_fd](const std::string& text) {
    // Fails with the supervisor's death, of which SIGTERM tells. The text fits a pipe's buffer.
    [[maybe_unused]] const ssize_t written = ::write(report_fd, text.data(), text.size());
  };
  const Status status = options_.worker(channel_, [&] { report(std::string(1, kReady)); });
  if (!status) report(encode(status.error()));
  std::exit(status ? 0 : 1);  // NOLINT(concurrency-mt-unsafe): the worker has joined its threads
}

Result<Supervisor::Outcome> Supervisor::await_worker() {
  while (true) {
    std::array<pollfd, 2> waited = {{{signal_fd_.get(), POLLIN, 0}, {report_.get(), POLLIN, 0}}};
    if (::poll(waited.data(), waited.size(), stopping_ ? 100 : -1) < 0 && errno != EINTR) {
      return io::system_error(errno, "poll");
    }
    if (waited[1].revents != 0) read_report();
    if (waited[0].revents != 0) take_signal();
    if (steady_clock::now() > kill_at_) ::kill(worker_, SIGKILL);
    int wait_status = 0;
    if (::waitpid(worker_, &wait_status, WNOHANG) == worker_) return judge(wait_status);
  }
}

void Supervisor::take_signal() {
  signalfd_siginfo signal = {};
  while (::read(signal_fd_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
    if (signal.ssi_signo == SIGCHLD) continue;  // await_worker() looks by itself
    stopping_ = true;
    kill_at_ = steady_clock::now() + kPatienceAfterStop;
    ::kill(worker_, SIGTERM);
  }
}

void Supervisor::read_report() {
  std::array<char, 4096> text = {};
  const ssize_t count = ::read(report_.get(), text.data(), text.size());
  if (count <= 0) return report_.reset();  // the worker has gone; poll() passes over a negative descriptor
  std::string_view rest(text.data(), static_cast<std::size_t>(count));
  if (rest.front() == kReady) {
    rest.remove_prefix(1);
    if (!std::exchange(announced_, true)) options_.on_ready();
  }
  error_ += rest;
}

Result<Supervisor::Outcome> Supervisor::judge(int wait_status) {
  if (report_.get() >= 0) read_report();
  if (WIFEXITED(wait_status)) {
    if (WEXITSTATUS(wait_status) == 0) return Outcome::kEnded;
    return tl::unexpected(decode(error_));
  }
  if (stopping_) return Outcome::kEnded;
  io::log_error("mount {}: worker {} died of signal {}", channel_.path().string(), worker_, WTERMSIG(wait_status));
  return Outcome::kDied;
}

bool Supervisor::may_restart() {
  if (!channel_.can_resend()) {
    io::log_error("mount {}: ends with its worker; taking over needs Linux 6.9", channel_.path().string());
    return false;
  }
  const auto now = steady_clock::now();
  while (!deaths_.empty() && now - deaths_.front() > std::chrono::minutes(1)) deaths_.pop_front();
  deaths_.push_back(now);
  return deaths_.size() <= options_.deaths_per_minute_max;
}

}  // namespace

Status supervise(const SupervisorOptions& options) {
  Result<Channel> channel = open_channel(options.channel);
  if (!channel) return io::forward_error(std::move(channel));
  Status status = Supervisor(options, *channel).run();
  // An orderly worker has unmounted already; then this finds nothing.
  if (const Status unmounted = unmount(*channel); !unmounted) {
    io::log_error("{}", unmounted.error().message());
  }
  return status;
}

}  // namespace headrace::fuse
