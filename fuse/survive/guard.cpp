// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/guard.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/fuse/survive/own_descriptors.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
namespace {

bool is_mounted(const Channel& channel) {
  for (const MountEntry& entry : mounts_at(channel.path())) {
    if (entry.device == channel.device()) return true;
  }
  return false;
}

void watch(int told_fd, const Channel& channel) {
  char ignored = 0;
  ssize_t count = 0;
  do {
    count = ::read(told_fd, &ignored, 1);
  } while (count < 0 && errno == EINTR);
  if (count != 0 || !is_mounted(channel)) return;
  io::log_error("mount {}: all its processes were killed; the connection ends", channel.path().string());
  abort_connection(channel.path(), channel.device());
}

// Signals for the whole group, as of Ctrl-C, are the supervisor's to act on.
[[noreturn]] void be_guard(int told_fd, const Channel& channel) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "hr-guard");
  const std::array<int, 1> kept = {told_fd};
  close_others(kept);  // it must not itself keep the connection alive; threads of a sanitizer share its table
  watch(told_fd, channel);
  ::_exit(0);
}

}  // namespace

io::Result<Guard> Guard::start(const Channel& channel) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io::system_error(errno, "pipe");
  const io::UniqueFd watched(ends[0]);
  io::UniqueFd told(ends[1]);
  std::fflush(nullptr);  // or the child writes once more what is not written yet
  const pid_t process = ::fork();
  if (process < 0) return io::system_error(errno, "fork");
  if (process == 0) be_guard(watched.get(), channel);
  return Guard(process, std::move(told));
}

Guard::Guard(Guard&& other) noexcept : process_(std::exchange(other.process_, -1)), told_(std::move(other.told_)) {}

Guard::~Guard() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace headrace::fuse
