// SPDX-License-Identifier: Apache-2.0
// Whose folders headrace trusts.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/own_folders.h"

#include "process.h"

namespace places_test {

using headrace::test::contains;
using headrace::test::skip;
using headrace::test::TempDir;

namespace {

namespace fs = std::filesystem;

// What `call` says in a process of this user, who has neither a home nor a runtime folder.
std::string say_as(uid_t user, const std::function<std::string()>& call) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const char* name : {"HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HEADRACE_RUNTIME_DIR", "HEADRACE_CACHE_DIR",
                             "HEADRACE_LOG_DIR", "XDG_STATE_HOME"}) {
      ::unsetenv(name);
    }
    const std::string said = ::setuid(user) == 0 ? call() : "setuid";
    [[maybe_unused]] const ssize_t written = ::write(ends[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char chunk[512];
  for (ssize_t count = 0; (count = ::read(ends[0], chunk, sizeof chunk)) > 0;) {
    said.append(chunk, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return said;
}

// The folder in /tmp that a user falls back to; gone at the end.
struct FolderInTmp {
  FolderInTmp() : user(static_cast<uid_t>(1'000'000 + ::getpid() % 1'000'000)) {
    if (::geteuid() != 0) skip("needs root to be another user");
    fs::remove_all(path());
  }
  ~FolderInTmp() { fs::remove_all(path()); }
  FolderInTmp(const FolderInTmp&) = delete;
  FolderInTmp& operator=(const FolderInTmp&) = delete;
  [[nodiscard]] fs::path path() const { return fmt::format("/tmp/headrace-{}", user); }
  uid_t user;
};

std::string text_of(const headrace::io::Result<fs::path>& folder) {
  return folder ? "good " + folder->string() : folder.error().message();
}

std::string runtime() {
  return text_of(headrace::io::runtime_directory());
}

std::string cache() {
  return text_of(headrace::io::cache_directory());
}

}  // namespace

TEST_CASE("without a home and a runtime folder a user gets folders in /tmp that are his alone") {
  const FolderInTmp folder;
  CHECK(say_as(folder.user, runtime) == "good " + folder.path().string());
  CHECK(say_as(folder.user, cache) == "good " + (folder.path() / "cache").string());
  struct stat status {};
  REQUIRE(::lstat(folder.path().c_str(), &status) == 0);
  CHECK(status.st_uid == folder.user);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("a home that cannot be written to costs its saved catalogs and logs, not the mount") {
  const FolderInTmp folder;
  const TempDir home;  // root's
  const auto at_home = [&](const std::function<std::string()>& call) {
    return say_as(folder.user, [&] {
      ::setenv("HOME", home.path().c_str(), 1);
      return call();
    });
  };
  CHECK(at_home(cache) == "good " + (folder.path() / "cache").string());
  CHECK(at_home([] { return text_of(headrace::io::log_directory()); }) == "good " + (folder.path() / "log").string());
  const std::string chosen = at_home([&] {
    ::setenv("HEADRACE_CACHE_DIR", (home.path() / "chosen").c_str(), 1);
    return cache();
  });
  CHECK(contains(chosen, home.path().string()));  // what somebody chose is not replaced
  CHECK_FALSE(contains(chosen, "good"));
}

// As `unshare -Ur` and rootless containers have it: this user is uid 0, and root outside is nobody.
std::string say_as_mapped_root(const std::function<std::string()>& call) {
  const uid_t user = ::geteuid();
  ::prctl(PR_SET_DUMPABLE, 1);  // went with the change of user; without it the file below belongs to the real root
  if (::unshare(CLONE_NEWUSER) != 0) return "no user namespace";
  if (std::ofstream map("/proc/self/uid_map"); !(map << "0 " << user << " 1" << std::flush)) return "no user namespace";
  return ::geteuid() == 0 ? call() : "not mapped";
}

TEST_CASE("the root of a user namespace has the folders of the user that he is outside of it") {
  const FolderInTmp folder;
  const std::string said = say_as(folder.user, [] { return say_as_mapped_root(runtime); });
  if (said == "no user namespace") skip("needs user namespaces for everybody");
  CHECK(said == "good " + folder.path().string());
  CHECK(say_as(folder.user, [] { return say_as_mapped_root(cache); }) == "good " + (folder.path() / "cache").string());
  CHECK(say_as(folder.user, runtime) == said);  // so that a command outside finds what was mounted within
}

TEST_CASE("a folder in /tmp that another user made first is refused with his name, and so is what lies in it") {
  const FolderInTmp folder;
  fs::create_directories(folder.path() / ".cache");
  for (const fs::path& path : {folder.path(), folder.path() / ".cache"}) REQUIRE(::chmod(path.c_str(), 0777) == 0);
  for (const std::string& said : {say_as(folder.user, runtime), say_as(folder.user, cache)}) {
    CAPTURE(said);
    CHECK(contains(said, folder.path().string() + " belongs to user 0"));
    CHECK(contains(said, "HEADRACE_RUNTIME_DIR"));
  }
}

TEST_CASE("a link in place of the folder in /tmp is refused") {
  const FolderInTmp folder;
  const TempDir target;
  fs::create_directory_symlink(target.path(), folder.path());
  CHECK(contains(say_as(folder.user, runtime), "is a symbolic link"));
}

}  // namespace places_test
