// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/child_command.h"

#include <atomic>
#include <csignal>

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cli/setup/argument_list.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

std::atomic<int> failed_status{0};

}  // namespace

io::Result<ChildCommand> ChildCommand::start(std::vector<std::string> words) {
  const std::string program = words.front();
  const ArgumentList arguments(std::move(words));
  // This program has blocked the signals that it waits for; the command gets them as usual.
  posix_spawnattr_t attributes;
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t actions;  // stdout is for what this program finds
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  ChildCommand command;
  const int failure =
      ::posix_spawnp(&command.pid_, program.c_str(), &actions, &attributes, arguments.pointers(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) return io::system_error(failure, "run " + program);
  return command;
}

ChildCommand::~ChildCommand() {
  if (pid_ <= 0) return;
  constexpr int kPatienceMs = 5000;  // a training may write a checkpoint first
  ::kill(-pid_, SIGTERM);
  const io::UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd watched{ended.get(), POLLIN, 0};
  ::poll(&watched, 1, kPatienceMs);
  ::kill(-pid_, SIGKILL);  // before waitpid(): afterwards the number of the group may belong to others
  ::waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildCommand::ended() const {
  siginfo_t info{};
  // WNOWAIT: the number of the group stays taken until the destructor has ended what is left of it.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  constexpr int kSignalled = 128;
  return info.si_code == CLD_EXITED ? info.si_status : kSignalled + info.si_status;
}

int failed_child_status() {
  return failed_status.load();
}

void note_failed_child(int status) {
  failed_status.store(status);
}

}  // namespace headrace::cli
