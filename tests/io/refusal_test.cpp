// SPDX-License-Identifier: Apache-2.0
// What containers and limits take away, in a child process that gives it up for itself.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/close_others.h"
#include "headrace/io/engine.h"
#include "headrace/io/log.h"
#include "headrace/io/open_beneath.h"

#include "io/engines.h"
#include "support/temp_dir.h"

namespace refusal_test {

using namespace headrace::io;
using namespace headrace::test;

namespace {

// Runs `body` in a child; its value is the child's exit status. A child that fails shows the number of the failed step.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(body());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kCannotRefuse = 77;

}  // namespace

TEST_CASE("where io_uring is refused the pread pool is used, and says why") {
  for (const unsigned error : {EPERM, ENOSYS}) {
    const int status = in_child([error] {
      if (!refuse_system_call(SYS_io_uring_setup, error)) return kCannotRefuse;
      set_log_level(LogLevel::kError);
      ::unsetenv("HEADRACE_ENGINE");
      auto engine = open_engine({});
      if (!engine || (*engine)->info().name != "pread") return 1;
      if ((*engine)->info().fallback_reason.find("io_uring is not available") != 0) return 2;
      ::setenv("HEADRACE_ENGINE", "uring", 1);
      auto forced = open_engine({});
      return !forced && forced.error().code == ErrorCode::kUnsupported ? 0 : 3;
    });
    if (status == kCannotRefuse) skip("no seccomp filters here");
    CHECK(status == 0);
  }
}

TEST_CASE("where close_range is refused all but what is kept is closed all the same") {
  for (const unsigned error : {0, EPERM, ENOSYS}) {
    const int status = in_child([error] {
      if (error != 0 && !refuse_system_call(SYS_close_range, error)) return kCannotRefuse;
      // In a thread with a table of its own, as whoever holds a mount alive has it.
      int seen = 0;
      std::thread([&seen] {
        constexpr int kFirst = 100;  // one buffer of the list does not hold them all
        constexpr int kLast = 900;
        const int nowhere = ::open("/dev/null", O_RDONLY);
        for (int fd = kFirst; fd <= kLast; ++fd) ::dup2(nowhere, fd);
        const std::array<int, 2> kept = {kFirst + 7, kLast - 7};
        if (::unshare(CLONE_FILES) != 0 || !close_others(kept)) seen = 1;
        const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
        for (int fd = 0; fd <= kLast && seen == 0; ++fd) {
          const bool is_kept = fd <= STDERR_FILENO || fd == kept[0] || fd == kept[1];
          if (is_open(fd) != is_kept) seen = 2;
        }
      }).join();
      if (seen != 0) return seen;
      return ::fcntl(100, F_GETFD) >= 0 ? 0 : 3;  // other threads keep theirs
    });
    if (status == kCannotRefuse) skip("no seccomp filters here");
    CHECK(status == 0);
  }
}

TEST_CASE("where openat2 is refused paths still cannot leave their directory") {
  const TempDir folder;
  folder.write("in/f", "content");
  REQUIRE(::symlink("in", (folder.path() / "link").c_str()) == 0);
  const DirFd dir(folder.path());
  const DirFd in(folder.path() / "in");
  for (const unsigned error : {ENOSYS, EPERM}) {
    const int status = in_child([&] {
      if (!refuse_system_call(SYS_openat2, error)) return kCannotRefuse;
      const int fd = open_beneath(dir.get(), "in/f", O_RDONLY);
      if (fd < 0) return 1;
      if (open_beneath(in.get(), "../in/f", O_RDONLY) != -EXDEV) return 2;
      if (open_beneath(dir.get(), "/etc/passwd", O_RDONLY) != -EXDEV) return 3;
      if (open_beneath(dir.get(), "link/f", O_RDONLY) >= 0) return 4;
      return open_beneath(dir.get(), "in/none", O_RDONLY) == -ENOENT ? 0 : 5;
    });
    if (status == kCannotRefuse) skip("no seccomp filters here");
    CHECK(status == 0);
  }
}

}  // namespace refusal_test
