// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/daemon.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "headrace/cli/daemon/unix_socket.h"
#include "headrace/cli/setup/prune.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/io/environment.h"
#include "headrace/io/log.h"
#include "headrace/io/own_folders.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using io::system_error;

// Opens the journal as a stream (systemd-journald.service(8), "STREAM LOGGING"): lines that are written to the
// descriptor become entries with this identifier. Empty where there is no journal.
io::UniqueFd open_journal() {
  io::Result<sockaddr_un> address = unix_address("/run/systemd/journal/stdout");
  io::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0 || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return {};
  }
  // Identifier, unit, priority of lines without one (6: info), whether "<N>" prefixes count, whether to forward to
  // syslog, kmsg and console.
  constexpr std::string_view kHeader = "headrace\n\n6\n1\n0\n0\n0\n";
  if (::send(fd.get(), kHeader.data(), kHeader.size(), MSG_NOSIGNAL) < 0) return {};
  return fd;
}

// The logs of mounts that have ended are for finding out what went wrong: 64 of them, and 256 MiB, are months of that.
constexpr KeepLimits kKeptLogs = {.files = 64, .bytes = std::uint64_t{256} << 20};
// A mount adds to its log; from this size on it begins a new one and keeps the last.
constexpr std::uintmax_t kLogBytesMax = std::uintmax_t{16} << 20;

// A mount that runs has a control socket of the same name.
bool has_socket(const std::filesystem::path& log) {
  const io::Result<std::filesystem::path> directory = io::runtime_directory();
  std::error_code failure;
  return directory && std::filesystem::exists(*directory / log.stem().replace_extension(".sock"), failure);
}

void keep_small(const std::filesystem::path& directory, const std::filesystem::path& log) {
  std::error_code failure;
  const std::uintmax_t bytes = std::filesystem::file_size(log, failure);
  if (!failure && bytes > kLogBytesMax) {
    std::filesystem::rename(log, directory / (log.stem().string() + ".old.log"), failure);
  }
  prune(directory, ".log", kKeptLogs, [&](const auto& other) { return other == log || has_socket(other); });
}

io::Result<io::UniqueFd> open_log_file(const std::string& name) {
  HEADRACE_TRY(directory, io::log_directory());
  const std::filesystem::path file = directory / name;
  keep_small(directory, file);
  io::UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0) return system_error(errno, "open log " + file.string());
  return fd;
}

// Turns stdin and stdout to /dev/null and stderr to the log. The user gets the terminal back.
io::Status leave_terminal(const std::string& log_name) {
  io::Result<io::UniqueFd> log = open_journal();
  const bool to_journal = log->get() >= 0;
  if (!to_journal) log = open_log_file(log_name);
  if (!log) return io::forward_error(std::move(log));
  io::UniqueFd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (nowhere.get() < 0) return system_error(errno, "open /dev/null");
  ::setsid();
  if (::chdir("/") != 0) return system_error(errno, "chdir /");  // or the folder of the user could not be unmounted
  ::dup2(nowhere.get(), STDIN_FILENO);
  ::dup2(nowhere.get(), STDOUT_FILENO);
  ::dup2(log->get(), STDERR_FILENO);
  if (to_journal) io::set_log_to_journal();
  return {};
}

// What the child tells its parent through the pipe: how far it is, a number and a line end each time. Then one byte;
// for an error its code, errno and context follow.
constexpr char kCount = 'C';
constexpr char kReady = 'R';
constexpr char kFailed = 'F';

void send_outcome(int fd, const io::Status& status) {
  std::string message(1, status ? kReady : kFailed);
  if (!status) {
    message += static_cast<char>(status.error().code);
    message += std::to_string(status.error().os_errno) + "\n" + status.error().context;
  }
  [[maybe_unused]] const ssize_t written =
      ::write(fd, message.data(), message.size());  // one write: it is smaller than PIPE_BUF
}

// Left out where the parent has stopped reading, or has gone.
void send_count(int fd, std::uint64_t count) {
  pollfd pipe = {fd, POLLOUT, 0};
  if (::poll(&pipe, 1, 0) != 1 || pipe.revents != POLLOUT) return;
  const std::string message = fmt::format("{}{}\n", kCount, count);
  [[maybe_unused]] const ssize_t written = ::write(fd, message.data(), message.size());
}

// Takes the counts that are complete from the beginning of the message.
void take_counts(std::string& message, const CountCallback& on_count) {
  while (message.starts_with(kCount)) {
    const std::size_t line_end = message.find('\n');
    if (line_end == std::string::npos) return;
    if (on_count) on_count(std::strtoull(message.c_str() + 1, nullptr, 10));
    message.erase(0, line_end + 1);
  }
}

io::Status parse_outcome(const std::string& message) {
  const bool has_ended = message.empty() || message.starts_with(kCount);
  if (has_ended && last_stop_signal() != 0) return make_error(ErrorCode::kCancelled, "stopped by a signal");
  if (has_ended) return make_error(ErrorCode::kSystem, "the daemon died while it started; its log may say why");
  if (message.front() == kReady) return {};
  const std::size_t line_end = message.find('\n', 2);
  if (message.size() < 3 || line_end == std::string::npos) return make_error(ErrorCode::kSystem, "the daemon failed");
  return make_error(static_cast<ErrorCode>(message[1]), message.substr(line_end + 1),
                    std::atoi(message.substr(2, line_end - 2).c_str()));
}

[[noreturn]] void run_child(const DaemonOptions& options, const DaemonBody& body, io::UniqueFd outcome) {
  bool ready_sent = false;
  io::Status status = leave_terminal(options.log_name);
  if (status) {
    status = body(
        [&] {
          send_outcome(outcome.get(), {});
          outcome.reset();
          ready_sent = true;
        },
        [&](std::uint64_t count) {
          if (outcome.valid()) send_count(outcome.get(), count);
        });
  }
  if (!status && ready_sent) io::log_error("{}", status.error().message());
  if (!ready_sent) send_outcome(outcome.get(), status);
  std::exit(status ? 0 : 1);  // NOLINT(concurrency-mt-unsafe): the body has joined its threads
}

// Reads what the child says until it is ready or gone. The first signal to stop is passed on to it.
std::string await_outcome(int pipe, pid_t child, const StopSignal& stop, const CountCallback& on_count) {
  std::string message;
  int signals = stop.descriptor();
  while (true) {
    pollfd watched[] = {{pipe, POLLIN, 0}, {signals, POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return message;
    if (watched[1].revents != 0) {
      ::kill(child, SIGTERM);
      signals = -1;  // poll() ignores it from now on
    }
    if (watched[0].revents == 0) continue;
    char chunk[4096];
    const ssize_t count = ::read(pipe, chunk, sizeof chunk);
    if (count <= 0) return message;
    message.append(chunk, static_cast<std::size_t>(count));
    take_counts(message, on_count);
    if (message.starts_with(kReady)) return message;
  }
}

// $JOURNAL_STREAM names the stream that systemd connected stderr to (systemd.exec(5)).
bool stderr_is_journal() {
  const char* stream = io::environment("JOURNAL_STREAM");
  struct stat file = {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &file) != 0) return false;
  return stream == fmt::format("{}:{}", file.st_dev, file.st_ino);
}

void notify_systemd() {
  const char* socket = io::environment("NOTIFY_SOCKET");
  if (socket == nullptr || *socket == '\0') return;
  io::Result<sockaddr_un> address = unix_address(socket);
  if (!address) return;
  if (address->sun_path[0] == '@') address->sun_path[0] = '\0';  // abstract name
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(socket));
  io::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr std::string_view kMessage = "READY=1";
  ::sendto(fd.get(), kMessage.data(), kMessage.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&*address),
           length);
}

}  // namespace

io::Status run_detached(const DaemonOptions& options, const DaemonBody& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "pipe");
  io::UniqueFd read_end(ends[0]);
  io::UniqueFd write_end(ends[1]);
  std::optional<StopSignal> stop(
      std::in_place);  // before fork(): a signal in between would end this process without the child
  const pid_t child = ::fork();
  if (child < 0) return system_error(errno, "fork");
  if (child == 0) {
    stop.reset();
    read_end.reset();
    run_child(options, body, std::move(write_end));
  }
  write_end.reset();
  const std::string message = await_outcome(read_end.get(), child, *stop, options.on_count);
  if (message.empty() || message.front() != kReady) ::waitpid(child, nullptr, 0);
  stop.reset();
  return parse_outcome(message);
}

io::Status run_in_foreground(const DaemonBody& body) {
  if (stderr_is_journal()) io::set_log_to_journal();
  return body(notify_systemd, [](std::uint64_t) {});  // the log says how far it is
}

}  // namespace headrace::cli
