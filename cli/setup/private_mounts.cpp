// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/private_mounts.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

using io::Status;
using io::system_error;

Status write_to(const char* path, const std::string& text) {
  const io::UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) < 0) return system_error(errno, path);
  return {};
}

// The user keeps its number, so that folders of its own are still its own.
Status enter_user_namespace() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return system_error(errno, "mounts of its own need root or a user namespace, which is refused here");
  }
  HEADRACE_TRY_DO(write_to("/proc/self/setgroups", "deny"));  // what the kernel demands before a group is mapped
  HEADRACE_TRY_DO(write_to("/proc/self/uid_map", fmt::format("{0} {0} 1", user)));
  return write_to("/proc/self/gid_map", fmt::format("{0} {0} 1", group));
}

}  // namespace

std::string_view describe(PrivateMounts way) {
  return way == PrivateMounts::kOfRoot ? "a mount of its own" : "a mount of its own in a user namespace";
}

io::Result<PrivateMounts> enter_private_mounts() {
  PrivateMounts way = PrivateMounts::kOfRoot;
  if (::unshare(CLONE_NEWNS) != 0) {
    if (errno != EPERM) return system_error(errno, "a mount namespace");
    HEADRACE_TRY_DO(enter_user_namespace());
    way = PrivateMounts::kOfUserNamespace;
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return system_error(errno, "make mounts private");
  return way;
}

io::Status see_private_mounts() {
  const pid_t child = ::fork();
  if (child < 0) return system_error(errno, "fork");
  if (child == 0) ::_exit(enter_private_mounts() ? 0 : 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return io::make_error(
      io::ErrorCode::kPermission,
      "a command can have mounts of its own only where root runs it, or where this user may make user "
      "namespaces, which is refused here");
}

}  // namespace headrace::cli
