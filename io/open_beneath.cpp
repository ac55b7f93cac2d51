// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/open_beneath.h"

#include <cerrno>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace headrace::io {

static_assert(kResolveBeneath == (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS));

namespace {

// openat2 answers EAGAIN when a rename ran at the same time, so that it cannot tell whether the path stayed inside. 16
// such answers in a row are no accident; then the error is reported.
constexpr int kRenameRetryLimit = 16;

int open_with_openat2(int dir_fd, const char* path, int flags, std::uint64_t resolve) {
  open_how how = {};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = resolve;
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    const bool again = errno == EINTR || (errno == EAGAIN && (resolve & RESOLVE_CACHED) == 0);
    if (!again || attempt == kRenameRetryLimit) return -errno;
  }
}

int open_one_name(int dir_fd, const std::string& name, int flags) {
  const int fd = ::openat(dir_fd, name.c_str(), flags | O_NOFOLLOW);
  return fd >= 0 ? fd : -errno;
}

int open_by_walking(int dir_fd, std::string_view path, int flags) {
  if (path.starts_with('/')) return -EXDEV;
  int parent = dir_fd;
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string name(path.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    int fd = -EXDEV;
    if (name != "..") fd = open_one_name(parent, name, last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent != dir_fd) ::close(parent);
    if (fd < 0 || last) return fd;
    parent = fd;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

int open_beneath(int dir_fd, const char* path, int flags) {
  const int fd = open_with_openat2(dir_fd, path, flags, kResolveBeneath);
  // EPERM: what filters answer that do not know the call.
  return fd == -ENOSYS || fd == -EPERM ? open_by_walking(dir_fd, path, flags) : fd;
}

int open_beneath_if_cached(int dir_fd, const char* path, int flags) {
  return open_with_openat2(dir_fd, path, flags, kResolveBeneath | RESOLVE_CACHED);
}

}  // namespace headrace::io
