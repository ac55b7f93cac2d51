// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/supervisor.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/fuse/kernel/request_log.h"
#include "headrace/fuse/survive/life_line.h"
#include "headrace/io/log.h"
#include "headrace/io/process_state.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {
using io::ErrorCode;
using std::chrono::steady_clock;

namespace {

// What the worker says through its pipe: that it is ready, or, last, the error it ends with.
constexpr char kReady = 'R';
constexpr char kError = 'E';
constexpr char kLeaving = 'L';
constexpr char kCrashed = '\x18';  // no text ends with it
// Longer than a worker takes to end in order (Mount::stop() takes less than a second, a tier's checkpoint a few).
constexpr std::chrono::seconds kPatienceAfterStop{10};
// A process that was killed is gone within milliseconds, with gigabytes of memory within tenths of a second. A stand-in
// that comes too early does no harm.
constexpr std::chrono::milliseconds kPatienceWithTheDead{300};
// How long readers of a stopped worker wait before somebody notices. A look takes some 20 us.
constexpr std::chrono::duration<int, std::milli> kLookInterval{1000};
// A successor that could not start is followed by another one, at first soon: a lock goes with the last thread of the
// process that died. Later it waits for somebody to free what is missing, which no hurry brings about.
constexpr std::chrono::milliseconds kRetryFirst{250};
constexpr std::chrono::milliseconds kRetryLast{30'000};

// For the handler: the pipe to the supervisor.
volatile std::sig_atomic_t crash_report_fd = -1;

// Raised again, the signal does what it does by default. A core that is then written waits for all threads, those
// that wait for an answer of this process too: so the supervisor must know before.
void on_crash(int signal) {
  [[maybe_unused]] const ssize_t written = ::write(crash_report_fd, &kCrashed, 1);
  ::raise(signal);
}

// Sanitizers have handlers of their own, which end the process without a core.
void report_crashes(int report_fd) {
  crash_report_fd = report_fd;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = on_crash;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(signal, &action, nullptr);
  }
}

constexpr std::array kWatchedSignals = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1};

sigset_t signals_to_watch() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : kWatchedSignals) ::sigaddset(&signals, signal);
  return signals;
}

std::string encode(const io::Error& error) {
  return kError + std::string(1, static_cast<char>(error.code)) + std::to_string(error.os_errno) + "\n" + error.context;
}

io::Error decode(const std::string& text) {
  const std::size_t line_end = text.find('\n', 2);
  if (text.size() < 3 || line_end == std::string::npos) return {ErrorCode::kSystem, 0, "the worker of the mount"};
  return {static_cast<ErrorCode>(text[1]), std::atoi(text.substr(2, line_end - 2).c_str()), text.substr(line_end + 1)};
}

// Blocks the signals to watch for as long as it lives.
class HeldSignals {
 public:
  HeldSignals() {
    const sigset_t watched = signals_to_watch();
    ::pthread_sigmask(SIG_BLOCK, &watched, &before_);
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  // For the processes that the supervisor starts: whoever called may have blocked those signals, too.
  [[nodiscard]] sigset_t of_children() const {
    sigset_t signals = before_;
    for (const int signal : kWatchedSignals) ::sigdelset(&signals, signal);
    return signals;
  }

 private:
  sigset_t before_ = {};
};

class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, Channel& channel, const sigset_t& signals_of_children)
      : options_(options), channel_(channel), watched_(signals_to_watch()), signals_of_children_(signals_of_children) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Another program has begun: the mount has been ready for long, and its child `stand_in` answers.
  void resume(pid_t stand_in) {
    stand_in_ = stand_in;
    announced_ = true;
  }
  Status run();

 private:
  enum class Outcome : std::uint8_t { kEnded, kDied, kFailedToStart };

  Result<Outcome> run_once();
  Status start_worker();
  Status run_worker(const std::function<void()>& ready);
  [[noreturn]] void be_worker(int report_fd, LifeLine life);
  Result<Outcome> await_worker();
  void take_signal();
  void read_report();
  void on_life_ended();
  void look_at_worker();
  void start_stand_in();
  void end_stand_in();
  void on_stand_in_gone();
  void look_after_stand_in();
  void give_up(const char* reason);
  void hand_over();
  // The worker has gone because its successor is to show other names (Mount::renew()).
  [[nodiscard]] bool has_renewed() const { return channel_.generation() != generation_; }
  [[nodiscard]] int poll_timeout_ms() const;
  Result<Outcome> judge(int wait_status);
  bool may_restart();
  [[nodiscard]] bool may_retry(const io::Error& error) const;
  void say_next_try(const io::Error& error) const;
  Result<bool> wait_before_retry();

  const SupervisorOptions& options_;
  Channel& channel_;
  const sigset_t watched_;
  const sigset_t signals_of_children_;
  io::UniqueFd signal_fd_;
  io::UniqueFd report_;           // the read end of the worker's pipe
  io::UniqueFd life_;             // hangs up when the worker is dying
  std::string error_;             // what the worker reported, encoded
  bool is_leaving_ = false;       // the worker ends in order
  bool is_ready_ = false;         // the worker has got so far
  bool is_stopped_ = false;       // it lives but does nothing
  std::uint64_t generation_ = 0;  // of the channel, when the worker began
  pid_t worker_ = -1;
  pid_t stand_in_ = -1;
  steady_clock::time_point stand_in_at_ = steady_clock::time_point::max();
  bool announced_ = false;
  bool is_handing_over_ = false;  // another program is to go on
  bool stopping_ = false;
  steady_clock::time_point kill_at_ = steady_clock::time_point::max();
  std::deque<steady_clock::time_point> deaths_;
  std::chrono::milliseconds retry_delay_ = kRetryFirst;
};

Status Supervisor::run() {
  signal_fd_ = io::UniqueFd(::signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signal_fd_.get() < 0) return io::system_error(errno, "signalfd");
  while (true) {
    HEADRACE_TRY(outcome, run_once());
    if (outcome == Outcome::kEnded) return {};
    if (is_handing_over_) {
      hand_over();
      continue;
    }
    if (outcome == Outcome::kFailedToStart) {
      HEADRACE_TRY(is_mounted, wait_before_retry());
      if (!is_mounted) return {};
      continue;
    }
    retry_delay_ = kRetryFirst;
    if (has_renewed()) continue;
    if (!may_restart()) return io::make_error(ErrorCode::kSystem, "the worker of the mount died");
  }
}

// One worker from its start to its end.
Result<Supervisor::Outcome> Supervisor::run_once() {
  Status started = start_worker();
  if (started) return await_worker();
  if (!announced_) return io::forward_error(std::move(started));
  say_next_try(started.error());
  return Outcome::kFailedToStart;
}

Status Supervisor::start_worker() {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io::system_error(errno, "pipe");
  report_ = io::UniqueFd(ends[0]);
  io::UniqueFd write_end(ends[1]);
  HEADRACE_TRY(life, LifeLine::open());
  error_.clear();
  is_leaving_ = false;
  is_ready_ = false;
  is_stopped_ = false;
  generation_ = channel_.generation();
  const pid_t supervisor = ::getpid();
  std::fflush(nullptr);  // or the child writes once more what is not written yet
  worker_ = ::fork();
  if (worker_ < 0) return io::system_error(errno, "fork");
  if (worker_ > 0) {
    life_ = life.take_watching_end();
    return {};
  }

  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != supervisor) ::_exit(1);  // it died before the request took effect
  report_.reset();
  signal_fd_.reset();
  be_worker(write_end.get(), std::move(life));
}

// What throws is what a process lacks: threads, or memory. It must not reach the supervisor's own frames, which this
// process has a copy of.
Status Supervisor::run_worker(const std::function<void()>& ready) {
  try {
    return options_.worker(channel_, ready);
  } catch (const std::exception& error) {
    return io::make_error(ErrorCode::kSystem, std::string("the worker cannot go on: ") + error.what());
  }
}

void Supervisor::be_worker(int report_fd, LifeLine life) {
  life.hold();
  report_crashes(report_fd);
  ::pthread_sigmask(SIG_SETMASK, &signals_of_children_, nullptr);
  const auto report = [report_fd](const std::string& text) {
    // Fails with the supervisor's death, of which SIGTERM tells. The text fits a pipe's buffer.
    [[maybe_unused]] const ssize_t written = ::write(report_fd, text.data(), text.size());
  };
  const Status status = run_worker([&] { report(std::string(1, kReady)); });
  report(status ? std::string(1, kLeaving) : encode(status.error()));
  life.let_go();
  std::exit(status ? 0 : 1);  // NOLINT(concurrency-mt-unsafe): the worker has joined its threads
}

Result<Supervisor::Outcome> Supervisor::await_worker() {
  while (true) {
    std::array<pollfd, 3> waited = {
        {{signal_fd_.get(), POLLIN, 0}, {report_.get(), POLLIN, 0}, {life_.get(), POLLIN, 0}}};
    if (::poll(waited.data(), waited.size(), poll_timeout_ms()) < 0 && errno != EINTR) {
      return io::system_error(errno, "poll");
    }
    if (waited[1].revents != 0) read_report();
    if (waited[2].revents != 0) on_life_ended();
    if (waited[0].revents != 0) take_signal();
    if (steady_clock::now() > kill_at_) ::kill(worker_, SIGKILL);
    int wait_status = 0;
    if (::waitpid(worker_, &wait_status, WNOHANG) == worker_) {
      Result<Outcome> outcome = judge(wait_status);
      worker_ = -1;
      // A stand-in with the catalog before does not stay.
      const bool is_handed_over = is_handing_over_ && !has_renewed();
      const bool goes_on = outcome && (*outcome == Outcome::kFailedToStart || is_handed_over);
      if (!goes_on || *outcome == Outcome::kEnded) end_stand_in();
      return outcome;
    }
    look_at_worker();
    look_after_stand_in();
    if (steady_clock::now() >= stand_in_at_) start_stand_in();
  }
}

int Supervisor::poll_timeout_ms() const {
  if (stopping_) return 100;
  if (stand_in_at_ == steady_clock::time_point::max()) return kLookInterval.count();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(stand_in_at_ - steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void Supervisor::on_life_ended() {
  life_.reset();  // poll() passes over a negative descriptor
  if (!is_leaving_ && stand_in_ < 0) stand_in_at_ = steady_clock::now() + kPatienceWithTheDead;
}

// By SIGSTOP, a freezer or a debugger. No SIGCHLD tells of it while a thread of the worker waits for its own mount.
void Supervisor::look_at_worker() {
  const std::optional<io::ProcessState> state = io::process_state(worker_);
  const bool is_stopped = state && state->is_stopped;
  const bool was_stopped = std::exchange(is_stopped_, is_stopped);
  if (!is_stopped) {
    if (!was_stopped) return;
    io::log_info("mount {}: worker {} goes on", channel_.path().string(), worker_);
    if (life_.valid() && is_ready_) end_stand_in();
    return;
  }
  if (!was_stopped) {
    io::log_warning("mount {}: worker {} is stopped; kill -CONT {} lets it go on", channel_.path().string(), worker_,
                    worker_);
  }
  const bool stands_in = stand_in_ > 0 || stand_in_at_ != steady_clock::time_point::max();
  if (stopping_ || stands_in) return;
  stand_in_at_ = steady_clock::now() + (was_stopped ? kLookInterval : kLookInterval.zero());  // one that failed: later
}

void Supervisor::start_stand_in() {
  stand_in_at_ = steady_clock::time_point::max();
  io::log_warning("mount {}: a stand-in answers until a worker can", channel_.path().string());
  const pid_t supervisor = ::getpid();
  std::fflush(nullptr);
  stand_in_ = ::fork();
  // Where no worker is left that cannot go, the next one is tried for soon.
  if (stand_in_ < 0 && worker_ > 0 && !is_stopped_) give_up("no stand-in can be started");
  if (stand_in_ != 0) return;

  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != supervisor) ::_exit(1);
  signal_fd_.reset();
  ::pthread_sigmask(SIG_SETMASK, &signals_of_children_, nullptr);
  const Status status = options_.stand_in
                            ? options_.stand_in(channel_)
                            : Status(io::make_error(ErrorCode::kUnsupported, "nobody is there to stand in"));
  if (!status) io::log_error("mount {}: {}", channel_.path().string(), status.error().message());
  ::_exit(status ? 0 : 1);
}

// It uses nothing of the mount itself, so it goes at once.
void Supervisor::end_stand_in() {
  stand_in_at_ = steady_clock::time_point::max();
  if (stand_in_ <= 0) return;
  ::kill(stand_in_, SIGKILL);
  ::waitpid(stand_in_, nullptr, 0);
  on_stand_in_gone();
}

void Supervisor::on_stand_in_gone() {
  stand_in_ = -1;
  channel_.request_log()->on_stand_in_gone();
}

void Supervisor::look_after_stand_in() {
  if (stand_in_ <= 0 || ::waitpid(stand_in_, nullptr, WNOHANG) != stand_in_) return;
  on_stand_in_gone();
  if (life_.valid()) return;  // a worker is starting, or answers already
  give_up("the stand-in has ended");
}

// Else the worker would never go, nor would anybody who reads.
void Supervisor::give_up(const char* reason) {
  io::log_error("mount {}: {}; the mount ends", channel_.path().string(), reason);
  abort_connection(channel_.path(), channel_.device());
}

void Supervisor::take_signal() {
  signalfd_siginfo signal = {};
  while (::read(signal_fd_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
    if (signal.ssi_signo == SIGCHLD) continue;  // await_worker() looks by itself
    if (signal.ssi_signo == SIGUSR1) {
      is_handing_over_ = options_.hand_over && !stopping_ && is_ready_ && worker_ > 0;
      if (is_handing_over_) ::kill(worker_, SIGKILL);
      continue;
    }
    options_.on_stop_signal(static_cast<int>(signal.ssi_signo));
    stopping_ = true;
    kill_at_ = steady_clock::now() + kPatienceAfterStop;
    if (worker_ > 0) ::kill(worker_, SIGTERM);
  }
}

void Supervisor::read_report() {
  std::array<char, 4096> text = {};
  const ssize_t count = ::read(report_.get(), text.data(), text.size());
  if (count <= 0) return report_.reset();  // the worker has gone; poll() passes over a negative descriptor
  std::string_view rest(text.data(), static_cast<std::size_t>(count));
  if (rest.front() == kReady) {
    rest.remove_prefix(1);
    is_ready_ = true;
    if (!std::exchange(announced_, true)) options_.on_ready();
    if (life_.valid()) end_stand_in();
  }
  if (rest.ends_with(kCrashed)) return on_life_ended();
  if (!rest.empty()) is_leaving_ = true;
  error_ += rest;
}

Result<Supervisor::Outcome> Supervisor::judge(int wait_status) {
  if (report_.get() >= 0) read_report();
  if (WIFEXITED(wait_status)) {
    if (WEXITSTATUS(wait_status) == 0) return Outcome::kEnded;
    if (stopping_ && announced_ && !is_ready_) return Outcome::kEnded;  // what it lacked, nobody needs any more
    io::Error error = decode(error_);
    if (!may_retry(error)) return tl::unexpected(std::move(error));
    say_next_try(error);
    return Outcome::kFailedToStart;
  }
  if (stopping_ && !announced_) return io::make_error(ErrorCode::kCancelled, "stopped by a signal before it was ready");
  if (stopping_) return Outcome::kEnded;
  if (is_handing_over_ || has_renewed()) return Outcome::kDied;
  io::log_error("mount {}: worker {} died of signal {}", channel_.path().string(), worker_, WTERMSIG(wait_status));
  return Outcome::kDied;
}

void Supervisor::say_next_try(const io::Error& error) const {
  io::log_error("mount {}: no worker can take over yet: {}; a stand-in answers meanwhile, and the next try is in {} ms",
                channel_.path().string(), error.message(), retry_delay_.count());
}

// The first worker's failure is the user's to see. kStale: the source is not the one that the mount was made with.
bool Supervisor::may_retry(const io::Error& error) const {
  return announced_ && !is_ready_ && !stopping_ && error.code != ErrorCode::kStale;
}

// False: the mount has ended meanwhile. A stand-in that ends with an error is started anew with the next try: what the
// worker lacks, it may lack as well.
Result<bool> Supervisor::wait_before_retry() {
  const auto until = steady_clock::now() + retry_delay_;
  retry_delay_ = std::min(2 * retry_delay_, kRetryLast);
  if (stand_in_ < 0) start_stand_in();
  while (!stopping_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
    if (left.count() <= 0) return true;
    pollfd signals = {signal_fd_.get(), POLLIN, 0};
    if (::poll(&signals, 1, static_cast<int>(left.count())) < 0 && errno != EINTR)
      return io::system_error(errno, "poll");
    take_signal();
    int wait_status = 0;
    if (stand_in_ <= 0 || ::waitpid(stand_in_, &wait_status, WNOHANG) != stand_in_) continue;
    on_stand_in_gone();
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return false;
  }
  end_stand_in();
  return false;
}

// The stand-in stays the child of this process, and answers while the other program starts.
void Supervisor::hand_over() {
  if (stand_in_ <= 0) start_stand_in();
  if (stand_in_ < 0) give_up("no stand-in can be started");
  options_.hand_over(channel_, stand_in_);
  is_handing_over_ = false;  // else this line would not be reached
}

bool Supervisor::may_restart() {
  const auto now = steady_clock::now();
  while (!deaths_.empty() && now - deaths_.front() > std::chrono::minutes(1)) deaths_.pop_front();
  deaths_.push_back(now);
  return deaths_.size() <= options_.deaths_per_minute_max;
}

}  // namespace

namespace {

// An orderly worker has unmounted already; then this finds nothing.
Status leave_nothing(const Channel& channel, Status status) {
  if (const Status unmounted = unmount(channel); !unmounted) io::log_error("{}", unmounted.error().message());
  return status;
}

}  // namespace

Status supervise(const SupervisorOptions& options) {
  const HeldSignals held;  // before mounting: a signal right after it would leave the mount behind
  HEADRACE_TRY(channel, open_channel(options.channel));
  return leave_nothing(channel, Supervisor(options, channel, held.of_children()).run());
}

// The signals were blocked all the while: one of them in between would have left the mount behind.
Status go_on(const SupervisorOptions& options, Channel channel, pid_t stand_in) {
  const HeldSignals held;
  Supervisor supervisor(options, channel, held.of_children());
  supervisor.resume(stand_in);
  return leave_nothing(channel, supervisor.run());
}

}  // namespace headrace::fuse
