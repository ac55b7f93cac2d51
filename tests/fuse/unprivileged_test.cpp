// SPDX-License-Identifier: Apache-2.0
// Mounting as a user who is not root: through fusermount3, which must find a /dev/fuse that the user may open; and as
// the root of a user namespace, as in a container that a user runs, who mounts without that help.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include <doctest/doctest.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/fuse/kernel/mount_table.h"

#include "fuse/mounted.h"

namespace headrace::fuse::unprivileged_test {
namespace {

using test::Mounted;
using test::read_file;

constexpr uid_t kNobody = 65534;
constexpr int kSkipped = 77;

// In a mount namespace of its own: a /dev/fuse for everybody, as udev makes it on most machines.
bool open_device_to_all(const std::string& node) {
  if (::unshare(CLONE_NEWNS) != 0) return false;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (::mknod(node.c_str(), S_IFCHR | 0666, ::makedev(10, 229)) != 0 || ::chmod(node.c_str(), 0666) != 0) return false;
  return ::mount(node.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr) == 0;
}

bool become(uid_t user) {
  return ::setgroups(0, nullptr) == 0 && ::setgid(user) == 0 && ::setuid(user) == 0;
}

bool write_line(const char* path, const std::string& line) {
  std::ofstream file(path);
  file << line << std::flush;
  return file.good();
}

// Of a user namespace that has this user alone, with mounts of its own.
bool become_root_of_namespace() {
  const std::string map = "0 " + std::to_string(kNobody) + " 1";
  ::prctl(PR_SET_DUMPABLE, 1);  // went with the change of user; without it the files below belong to the real root
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_line("/proc/self/setgroups", "deny") &&
         write_line("/proc/self/uid_map", map) && write_line("/proc/self/gid_map", map);
}

// Runs `body` as this user in a child; returns its exit status.
int run_as(uid_t user, const std::function<int()>& body) {
  const headrace::test::TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!open_device_to_all(dir.path() / "fuse") || !become(user)) ::_exit(kSkipped);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run_as_nobody(const std::function<int()>& body) {
  return run_as(kNobody, body);
}

// doctest is the parent's: the child says what is wrong and ends with 1.
int fail(const std::string& reason) {
  std::fprintf(stderr, "as user %u: %s\n", ::getuid(), reason.c_str());
  return 1;
}

int mount_read_and_unmount() {
  Mounted mounted;
  mounted.write_samples(4, 50'000);
  mounted.options.ram_bytes = 1 << 20;
  mounted.open_store();
  auto mount = Mount::start(mounted.store(), mounted.options);
  if (!mount) return fail(mount.error().message());
  if (!(*mount)->push_until_full([](const PushProgress&) { return true; })) return fail("push");
  for (unsigned i = 0; i < 4; ++i) {
    if (read_file(mounted.file(Mounted::sample_name(i))) != Mounted::sample_content(i, 50'000)) return fail("content");
  }
  const MountStats stats = (*mount)->stats();
  if (stats.pushed_samples != 4) return fail("pushed " + std::to_string(stats.pushed_samples));
  if (stats.fallbacks.empty()) return fail("readahead cannot be raised, yet no fallback says so");
  (*mount)->stop();
  return mounts_at(mounted.path()).empty() ? 0 : fail("still mounted");
}

TEST_CASE("a user who is not root can mount, read and unmount") {
  test::need_fuse();
  test::need_root();
  const int status = run_as_nobody(mount_read_and_unmount);
  if (status == kSkipped) headrace::test::skip("no mount namespace with a /dev/fuse of its own");
  CHECK(status == 0);
}

TEST_CASE("the root of a user namespace can mount, read and unmount") {
  test::need_fuse();
  test::need_root();
  const int status = run_as_nobody([] { return become_root_of_namespace() ? mount_read_and_unmount() : kSkipped; });
  if (status == kSkipped) headrace::test::skip("no user namespace with a /dev/fuse of its own");
  CHECK(status == 0);
}

// Mounts in a child and serves until it is killed: what is forked later comes from a process without threads.
class MountedByAnother {
 public:
  explicit MountedByAnother(Mounted& mounted) : path_(mounted.path()) {
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    mounted.start();
    while (true) ::pause();
  }
  ~MountedByAnother() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    CHECK(unmount(path_));
  }
  MountedByAnother(const MountedByAnother&) = delete;
  MountedByAnother& operator=(const MountedByAnother&) = delete;
  // Within half a minute, or it hangs.
  [[nodiscard]] bool wait_until_mounted() const {
    for (int look = 0; look < 3000 && mounts_at(path_).empty(); ++look) ::usleep(10'000);
    return std::filesystem::exists(path_ / Mounted::sample_name(0));
  }

 private:
  const std::filesystem::path path_;
  pid_t child_ = 0;
};

TEST_CASE("whose it is to end a mount of another user stands in the error") {
  test::need_fuse();
  test::need_root();
  Mounted mounted;
  mounted.write_samples(1, 100);
  int status = 0;
  {
    const MountedByAnother other(mounted);
    REQUIRE(other.wait_until_mounted());
    status = run_as_nobody([&] {
      const io::Status ended = unmount(mounted.path());
      if (ended) return fail("it was unmounted");
      const std::string reason = ended.error().message();
      return reason.ends_with("only who made this mount, or root, may end it: permission denied") ? 0 : fail(reason);
    });
    CHECK_FALSE(mounts_at(mounted.path()).empty());
  }
  if (status == kSkipped) headrace::test::skip("no mount namespace with a /dev/fuse of its own");
  CHECK(status == 0);
}

TEST_CASE("why fusermount3 refuses stands in the error, and on stderr") {
  test::need_fuse();
  test::need_root();
  const headrace::test::TempDir dir;
  const std::filesystem::path point = dir.path() / "point";  // root's, so that nobody may mount there
  std::filesystem::create_directory(point);
  REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
  REQUIRE(::chmod(point.c_str(), 0755) == 0);
  const int status = run_as_nobody([&] {
    const auto channel = open_channel({.mountpoint = point});
    if (channel) return fail("it was mounted");
    const std::string reason = channel.error().message();
    return reason.find("fusermount3: user has no write access to mountpoint") != std::string::npos ? 0 : fail(reason);
  });
  if (status == kSkipped) headrace::test::skip("no mount namespace with a /dev/fuse of its own");
  CHECK(status == 0);
}

TEST_CASE("a user without a name, as a pod's may be, is told what fusermount3 wants") {
  test::need_fuse();
  test::need_root();
  constexpr uid_t kNameless = 1'234'567;
  REQUIRE(::getpwuid(kNameless) == nullptr);
  const int status = run_as(kNameless, [] {
    const headrace::test::TempDir dir;
    const auto channel = open_channel({.mountpoint = dir.path()});
    if (channel) return fail("it was mounted");
    const std::string reason = channel.error().message();
    const bool good = reason.find("user 1234567 has none") != std::string::npos &&
                      reason.find("'headrace:x:1234567:1234567::/:/usr/sbin/nologin'") != std::string::npos;
    return good ? 0 : fail(reason);
  });
  if (status == kSkipped) headrace::test::skip("no mount namespace with a /dev/fuse of its own");
  CHECK(status == 0);
}

TEST_CASE("a user who may not open the device is told so") {
  test::need_root();
  const pid_t child = ::fork();
  if (child == 0) {
    if (!become(kNobody)) ::_exit(kSkipped);
    const headrace::test::TempDir dir;
    auto channel = open_channel({.mountpoint = dir.path()});
    if (channel) ::_exit(kSkipped);  // this machine's device is open to all
    const std::string expected =
        "mount " + dir.path().string() +
        ": this user may not open /dev/fuse (as root: chmod 0666 /dev/fuse): permission denied";
    ::_exit(channel.error().message() == expected ? 0 : fail(channel.error().message()));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WEXITSTATUS(status) == kSkipped) headrace::test::skip("everybody may open /dev/fuse here");
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace headrace::fuse::unprivileged_test
