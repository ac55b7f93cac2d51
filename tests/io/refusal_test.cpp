// SPDX-License-Identifier: Apache-2.0
// What containers and limits take away, in a child process that gives it up for itself.
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/buffer_arena.h"
#include "headrace/io/engine.h"
#include "headrace/io/log.h"
#include "headrace/io/open_beneath.h"

#include "io/engines.h"
#include "support/temp_dir.h"

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

TEST_CASE("where openat2 is refused paths still cannot leave their directory") {
  const TempDir folder;
  folder.write("in/f", "content");
  REQUIRE(::symlink("in", (folder.path() / "link").c_str()) == 0);
  const DirFd dir(folder.path());
  const DirFd in(folder.path() / "in");
  const int status = in_child([&] {
    if (!refuse_system_call(SYS_openat2, ENOSYS)) return kCannotRefuse;
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

TEST_CASE("as much of an arena is registered as the limit on locked memory allows, and the rest works unregistered") {
  need_uring();
  if (::geteuid() != 0) skip("needs root, to drop its exemption from the limit");
  constexpr std::size_t kMiB = 1 << 20;
  const TempDir folder;
  const std::string content(as_text(pattern_bytes(600'000, 4)));
  const DirFd file(folder.write("f", content), O_RDONLY);
  const int status = in_child([&] {
    const rlimit limit = {3 * kMiB, 3 * kMiB};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || ::setresuid(65534, 65534, 65534) != 0) return 1;
    auto arena = BufferArena::create({.bytes = 8 * kMiB});
    auto engine = open_engine({.kind = EngineOptions::Kind::kUring, .arena = *arena});
    if (!engine) return 2;
    const EngineInfo info = (*engine)->info();
    if (info.registered_bytes != 2 * kMiB) return 3;
    if (info.limits.empty() || info.limits.back().find("2 of 8 MiB") != 0) return 4;
    std::vector<std::unique_ptr<Tracked>> reads;
    for (int i = 0; i < 12; ++i) {  // from registered memory, from the rest of the arena
      Buffer buffer = std::move(*(*arena)->allocate(content.size()));
      reads.push_back(std::make_unique<Tracked>(Operation::read(file.get(), 0, content.size(), std::move(buffer))));
      (*engine)->submit(reads.back()->operation);
    }
    while ((*engine)->in_flight() > 0) (*engine)->wait(std::chrono::steady_clock::time_point::max());
    for (auto& read : reads) {
      if (!*read->result || read->text() != content) return 5;
    }
    return 0;
  });
  CHECK(status == 0);
}
