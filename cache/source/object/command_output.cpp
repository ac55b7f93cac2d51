// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/command_output.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/secret.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kOutputBytesMax = std::size_t{64} * 1024;

// In a process group of its own, so that what it starts can be ended with it.
std::optional<pid_t> spawn(const std::string& command, int output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // The threads of this program block signals, or leave some out; a command starts with none of that.
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string shell = "sh";
  std::string option = "-c";
  std::string text = command;
  std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  errno = failed;
  return failed == 0 ? std::optional(pid) : std::nullopt;
}

// False: there is no time left, or nobody needs it any more.
bool wait_for(int fd, Clock::time_point deadline, const StopEvent* stop) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    std::array<pollfd, 2> ready = {{{.fd = fd, .events = POLLIN, .revents = 0},
                                    {.fd = stop != nullptr ? stop->fd() : -1, .events = POLLIN, .revents = 0}}};
    if (left.count() <= 0) return false;
    const int count = ::poll(ready.data(), ready.size(), static_cast<int>(left.count()));
    if (count == 0 || (stop != nullptr && stop->is_set())) return false;
    if (count > 0) return true;
  }
}

// False: as wait_for(), or it is too much.
bool read_all(int fd, std::string& text, Clock::time_point deadline, const StopEvent* stop) {
  std::size_t size = 0;
  text.resize(kOutputBytesMax);  // at once: a string that grows leaves copies behind
  while (size < text.size()) {
    if (!wait_for(fd, deadline, stop)) return false;
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      text.resize(size);
      return true;
    }
    size += static_cast<std::size_t>(got);
  }
  return false;
}

// A command may close its output and go on. False: as wait_for().
bool wait_for_end(pid_t pid, Clock::time_point deadline, const StopEvent* stop) {
  const io::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return !process.valid() || wait_for(process.get(), deadline, stop);  // before Linux 5.3 waitpid() takes what it takes
}

}  // namespace

io::Result<std::string> command_output(const std::string& command, std::chrono::milliseconds wait,
                                       const StopEvent* stop) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io::system_error(errno, "pipe");
  const io::UniqueFd output(ends[0]);
  io::UniqueFd input(ends[1]);
  const std::optional<pid_t> pid = spawn(command, input.get());
  if (!pid) return io::system_error(errno, "/bin/sh");
  input.reset();
  std::string text;
  const Clock::time_point deadline = Clock::now() + wait;
  const bool is_whole = read_all(output.get(), text, deadline, stop) && wait_for_end(*pid, deadline, stop);
  if (!is_whole) ::kill(-*pid, SIGKILL);
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (is_whole && WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  const bool is_late = Clock::now() >= deadline;
  io::wipe(text);
  if (!is_whole && stop != nullptr && stop->is_set()) return make_error(ErrorCode::kCancelled, "nobody waits for it");
  if (!is_whole && is_late)
    return make_error(ErrorCode::kTimedOut, fmt::format("no end within {} s", wait.count() / 1000));
  if (!is_whole) return make_error(ErrorCode::kInvalidArgument, "its output is too long");
  return make_error(ErrorCode::kSystem,
                    fmt::format("it ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : -1));
}

}  // namespace headrace::cache
