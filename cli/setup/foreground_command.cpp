// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/foreground_command.h"

#include <cerrno>
#include <csignal>
#include <optional>
#include <sstream>
#include <system_error>

#include <fmt/core.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cli/setup/argument_list.h"
#include "headrace/io/environment.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using io::system_error;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Holds the signals that are passed on, and the one that says that a child has ended.
class HeldSignals {
 public:
  HeldSignals() {
    ::signal(SIGCHLD, SIG_DFL);  // whoever started this program may have ignored it, and no child could be waited for
    sigset_t held;
    ::sigemptyset(&held);
    for (const int each : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) ::sigaddset(&held, each);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
    descriptor_ = io::UniqueFd(::signalfd(-1, &held, SFD_CLOEXEC));
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  [[nodiscard]] bool valid() const { return descriptor_.valid(); }
  [[nodiscard]] const sigset_t& before() const { return before_; }
  // Waits for the next one.
  [[nodiscard]] signalfd_siginfo take() const {
    signalfd_siginfo taken{};
    while (::read(descriptor_.get(), &taken, sizeof taken) < 0 && errno == EINTR) {
    }
    return taken;
  }

 private:
  sigset_t before_ = {};
  io::UniqueFd descriptor_;
};

// nullopt: it runs.
std::optional<int> status_of(pid_t command) {
  int status = 0;
  if (::waitpid(command, &status, WNOHANG) != command) return std::nullopt;
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

io::Result<pid_t> spawn(const fs::path& program, const std::vector<std::string>& words, const sigset_t& signals) {
  const ArgumentList arguments(words);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t command = -1;
  const int failure = ::posix_spawn(&command, program.c_str(), nullptr, &attributes, arguments.pointers(), ::environ);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) return system_error(failure, "run " + program.string());
  return command;
}

}  // namespace

io::Result<fs::path> find_program(const std::string& name) {
  std::vector<fs::path> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.emplace_back(name);
  } else {
    const char* path = io::environment("PATH");
    std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');) candidates.push_back(fs::path(folder) / name);
  }
  bool is_there = false;
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    is_there = is_there || fs::exists(candidate, ignored);
    if (is_file(candidate) && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  if (is_there) return make_error(ErrorCode::kPermission, fmt::format("{} is there, but cannot be executed", name));
  return make_error(ErrorCode::kNotFound, fmt::format("there is no command {}", name));
}

io::Result<int> run_foreground_command(const fs::path& program, const std::vector<std::string>& words) {
  const HeldSignals signals;
  if (!signals.valid()) return system_error(errno, "signalfd");
  HEADRACE_TRY(command, spawn(program, words, signals.before()));
  while (true) {
    if (const std::optional<int> status = status_of(command)) return *status;
    const signalfd_siginfo taken = signals.take();
    const bool is_from_terminal = taken.ssi_code == SI_KERNEL;
    if (taken.ssi_signo != SIGCHLD && !is_from_terminal) ::kill(command, static_cast<int>(taken.ssi_signo));
  }
}

}  // namespace headrace::cli
