// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/mount.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "headrace/cache/refresher.h"
#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/io/unique_fd.h"

#include "fuse/mounted.h"

namespace headrace::fuse::mount_test {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using std::chrono::steady_clock;
using test::difference;
using test::Mounted;
using test::need_fuse;
using test::need_root;
using test::read_file;

void write_odd_tree(const headrace::test::TempDir& source) {
  source.write("one/two/three/four/deep.bin", "deep");
  source.write("empty", "");
  source.write("name with \xff\xfe bytes", "not UTF-8");
  source.write("line\nbreak", "x");
  source.write("large", Mounted::sample_content(7, 9 << 20));  // pushed in pieces
  source.write("medium", Mounted::sample_content(8, 300'001));
  fs::create_directory(source.path() / "no files");
  fs::create_symlink("one/two", source.path() / "inward");
  fs::create_symlink("/nowhere/at/all", source.path() / "dangling");
  fs::permissions(source.write("private", "x"), fs::perms::owner_read);
  fs::permissions(source.write("run.sh", "x"), fs::perms::all);
  const struct timespec times[2] = {{1'000'000'000, 123'456'789}, {-86'400, 500'000'000}};
  REQUIRE(::utimensat(AT_FDCWD, (source.path() / "empty").c_str(), times, 0) == 0);
}

TEST_CASE("the tree seen through the mount equals the source") {
  need_fuse();
  Mounted mounted;
  write_odd_tree(mounted.source());
  mounted.start();
  CHECK(difference(mounted.source().path(), mounted.path()) == "");
}

TEST_CASE("the tree seen through the mount equals the source while everything is pushed") {
  need_fuse();
  Mounted mounted;
  write_odd_tree(mounted.source());
  mounted.options.ram_bytes = 64 << 20;
  mounted.start();
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  CHECK(difference(mounted.source().path(), mounted.path()) == "");
  CHECK(mounted.mount().stats().push_failures == 0);
}

TEST_CASE("pushed files that changed in the source are shown as they are now, once a comparison has seen them") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(20, 10'000);
  mounted.options.ram_bytes = 64 << 20;
  mounted.start();
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  REQUIRE(difference(mounted.source().path(), mounted.path()) == "");

  mounted.source().write(Mounted::sample_name(3), Mounted::sample_content(100, 25'000));
  mounted.source().write(Mounted::sample_name(4), "shorter than it was");
  mounted.source().write(Mounted::sample_name(5), Mounted::sample_content(101, 10'000));
  cache::Refresher refresher(mounted.store(), {});
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (difference(mounted.source().path(), mounted.path()) != "" && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(difference(mounted.source().path(), mounted.path()) == "");
  // The count comes behind what it counts.
  while (refresher.state().rounds == 0 && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(refresher.state().changed == 3);
}

TEST_CASE("a file that is swapped while mounted and swapped back leaves none of the other's bytes") {
  need_fuse();
  for (const std::size_t bytes : {std::size_t{10'000}, std::size_t{12} << 20}) {
    CAPTURE(bytes);
    Mounted mounted;
    mounted.write_samples(3, bytes);
    mounted.source().write("other", Mounted::sample_content(100, bytes));
    mounted.options.ram_bytes = 0;
    mounted.start();
    const fs::path sample = mounted.source().path() / Mounted::sample_name(1);
    const fs::path other = mounted.source().path() / "other";
    const std::string file = mounted.file(Mounted::sample_name(1));
    const auto wait_for = [&](unsigned number) {
      const std::string content = Mounted::sample_content(number, bytes);
      const auto deadline = steady_clock::now() + std::chrono::seconds(30);
      while (read_file(file) != content && steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return read_file(file) == content;
    };
    struct stat known {};
    REQUIRE(::stat(file.c_str(), &known) == 0);
    fs::rename(sample, mounted.source().path() / "bak");
    fs::rename(other, sample);
    // The read finds out, under the number of the file before. Nothing went out under it: it stands for this one now.
    CHECK(read_file(file) == Mounted::sample_content(100, bytes));
    CHECK(wait_for(100));
    fs::rename(sample, other);
    fs::rename(mounted.source().path() / "bak", sample);
    const cache::Refresher refresher(mounted.store(), {});
    CHECK(wait_for(1));
  }
}

TEST_CASE("modes and owners that changed in the source are shown as they are now, once a comparison has seen them") {
  need_fuse();
  test::need_root();
  Mounted mounted;
  mounted.write_samples(8, 10'000);
  mounted.options.allow_other = true;
  mounted.start();
  REQUIRE(difference(mounted.source().path(), mounted.path()) == "");
  const fs::path file = mounted.source().path() / Mounted::sample_name(0);
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  REQUIRE(::chown((mounted.source().path() / Mounted::sample_name(1)).c_str(), 1234, 5678) == 0);
  REQUIRE(::chmod(file.parent_path().c_str(), 0700) == 0);
  REQUIRE(::chmod(mounted.source().path().c_str(), 0711) == 0);
  cache::Refresher refresher(mounted.store(), {});
  const auto wait_until_equal = [&] {
    const auto deadline = steady_clock::now() + std::chrono::seconds(30);
    while (difference(mounted.source().path(), mounted.path()) != "" && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(difference(mounted.source().path(), mounted.path()) == "");
  };
  wait_until_equal();
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  REQUIRE(::chmod(file.parent_path().c_str(), 0755) == 0);
  refresher.request();
  wait_until_equal();
}

// Replaces or rewrites a file of 12 MiB whose first MiB was read, and reads on.
void change_in_the_middle(Mounted& mounted, const std::function<void()>& change) {
  constexpr std::size_t kBytes = std::size_t{12} << 20;
  constexpr off_t kUnread = off_t{9} << 20;
  const std::string file = mounted.file("a/file.bin");
  mounted.source().write("a/file.bin", std::string(kBytes, 'o'));
  mounted.start();
  const io::UniqueFd open_file(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string piece(1 << 20, ' ');
  REQUIRE(::pread(open_file.get(), piece.data(), piece.size(), 0) == static_cast<ssize_t>(piece.size()));
  mounted.source().write("new.bin", std::string(kBytes, 'n'));
  change();

  const std::unique_ptr<cache::Refresher> refresher =
      mounted.options.ram_bytes > 0 ? std::make_unique<cache::Refresher>(mounted.store(), cache::RefresherOptions{})
                                    : nullptr;  // else the reads below find out
  for (const off_t offset : {kUnread, off_t{0}, off_t{5} << 20}) {
    errno = 0;
    const ssize_t count = ::pread(open_file.get(), piece.data(), piece.size(), offset);
    if (count < 0) CHECK(errno == ESTALE);
    CHECK(piece.substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0))).find('n') == std::string::npos);
  }
  const std::string now(kBytes, 'n');
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (read_file(file) != now && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK((read_file(file) == now));
}

TEST_CASE("who reads a file that is replaced meanwhile gets its bytes or ESTALE, never bytes of the new one") {
  need_fuse();
  Mounted mounted;
  SUBCASE("read from the store") {
    mounted.options.ram_bytes = 0;
  }
  SUBCASE("pushed") {
    mounted.options.ram_bytes = 64 << 20;
  }
  change_in_the_middle(
      mounted, [&] { fs::rename(mounted.source().path() / "new.bin", mounted.source().path() / "a/file.bin"); });
}

TEST_CASE("who reads a file that is written in place meanwhile gets no mix either") {
  need_fuse();
  Mounted mounted;
  SUBCASE("read from the store") {
    mounted.options.ram_bytes = 0;
  }
  SUBCASE("pushed") {
    mounted.options.ram_bytes = 64 << 20;
  }
  change_in_the_middle(mounted, [&] { mounted.source().write("a/file.bin", std::string(std::size_t{12} << 20, 'n')); });
}

TEST_CASE("below an overlay a file that was replaced is shown once a comparison has seen it") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(3, 10'000);
  mounted.options.overlay = OverlayMode::kIfPossible;
  mounted.start();
  const std::string file = mounted.file(Mounted::sample_name(1));
  CHECK(read_file(file) == Mounted::sample_content(1, 10'000));
  mounted.source().write("new", Mounted::sample_content(100, 10'000));
  fs::rename(mounted.source().path() / "new", mounted.source().path() / Mounted::sample_name(1));
  const cache::Refresher refresher(mounted.store(), {});
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  while (read_file(file) != Mounted::sample_content(100, 10'000) && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(read_file(file) == Mounted::sample_content(100, 10'000));
}

TEST_CASE("a small file that was touched since is read without an error") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(1, 10'000);
  mounted.options.ram_bytes = 0;
  mounted.start();
  const std::string file = mounted.file(Mounted::sample_name(0));
  struct stat known {};
  REQUIRE(::stat(file.c_str(), &known) == 0);
  fs::create_hard_link(mounted.source().path() / Mounted::sample_name(0), mounted.source().path() / "link");
  CHECK(read_file(file) == Mounted::sample_content(0, 10'000));
  CHECK(read_file(file) == Mounted::sample_content(0, 10'000));
}

// What setfacl -m u:12345:--- writes (linux/posix_acl_xattr.h): version 2, then tag, permissions and id of each entry.
bool deny_user(const fs::path& path) {
  struct Entry {
    std::uint16_t tag, permissions;
    std::uint32_t id;
  };
  struct {
    std::uint32_t version = 2;
    std::array<Entry, 5> entries = {
        {{0x01, 6, UINT32_MAX}, {0x02, 0, 12345}, {0x04, 4, UINT32_MAX}, {0x10, 4, UINT32_MAX}, {0x20, 4, UINT32_MAX}}};
  } const acl;
  return ::setxattr(path.c_str(), "system.posix_acl_access", &acl, sizeof(acl), 0) == 0;
}

TEST_CASE("a file with an ACL is its owner's alone where others may use the mount") {
  need_fuse();
  test::need_root();
  Mounted mounted;
  mounted.write_samples(4, 10'000);
  if (!deny_user(mounted.source().path() / Mounted::sample_name(0)))
    headrace::test::skip("no ACLs on this file system");
  const auto mode_of = [&](unsigned number) {
    struct stat status {};
    REQUIRE(::stat(mounted.file(Mounted::sample_name(number)).c_str(), &status) == 0);
    return status.st_mode & 0777;
  };
  SUBCASE("where others may") {
    mounted.options.allow_other = true;
    mounted.start();
    CHECK(mode_of(0) == 0600);
    CHECK(mode_of(1) == 0644);
  }
  SUBCASE("where they may not") {
    mounted.start();
    CHECK(mode_of(0) == 0644);
  }
}

TEST_CASE("a folder of 100 000 entries is listed and looked up completely") {
  need_fuse();
  if (fs::is_directory("/dev/shm")) ::setenv("HEADRACE_TEST_DIR", "/dev/shm", 1);  // making the files is the slow part
  Mounted mounted;
  constexpr int kCount = 100'000;
  const fs::path folder = mounted.source().path() / "folder";
  fs::create_directory(folder);
  for (int i = 0; i < kCount; ++i) {
    const int fd = ::open((folder / std::to_string(i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0);
    ::close(fd);
  }
  mounted.start();
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(mounted.path() / "folder")) seen += entry.is_regular_file() ? 1 : 0;
  CHECK(seen == kCount);
  CHECK(fs::exists(mounted.path() / "folder/99999"));
  CHECK_FALSE(fs::exists(mounted.path() / "folder/100000"));
}

TEST_CASE("statfs reports the size of the data set and no room") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, 100'000);
  mounted.start();
  struct statvfs status {};
  REQUIRE(::statvfs(mounted.path().c_str(), &status) == 0);
  CHECK(status.f_blocks * status.f_frsize >= 400'000);
  CHECK(status.f_bavail == 0);
  CHECK(status.f_files == 4 + 3);
  CHECK((status.f_flag & ST_RDONLY) != 0);
}

TEST_CASE("a name that is too long is refused as such, and none that is not") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(1, 100);
  mounted.start();
  struct stat status {};
  for (const std::size_t length : {255, 256, 1024, 1025}) {
    CAPTURE(length);
    REQUIRE(::stat((mounted.path() / std::string(length, 'y')).c_str(), &status) != 0);
    CHECK(errno == (length > 255 ? ENAMETOOLONG : ENOENT));
  }
}

TEST_CASE("every way to write fails with EROFS") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 1000);
  mounted.start();
  const std::string file = mounted.file(Mounted::sample_name(0));
  const std::string missing = mounted.file("new");
  const auto fails = [](int result) { return result < 0 && errno == EROFS; };
  CHECK(fails(::open(file.c_str(), O_WRONLY)));
  CHECK(fails(::open(file.c_str(), O_RDWR)));
  CHECK(fails(::open(file.c_str(), O_RDONLY | O_TRUNC)));
  CHECK(fails(::open(missing.c_str(), O_CREAT | O_WRONLY, 0644)));
  CHECK(fails(::truncate(file.c_str(), 0)));
  CHECK(fails(::unlink(file.c_str())));
  CHECK(fails(::rmdir(mounted.file("a").c_str())));
  CHECK(fails(::mkdir(missing.c_str(), 0755)));
  CHECK(fails(::rename(file.c_str(), missing.c_str())));
  CHECK(fails(::link(file.c_str(), missing.c_str())));
  CHECK(fails(::symlink("x", missing.c_str())));
  CHECK(fails(::mkfifo(missing.c_str(), 0644)));
  CHECK(fails(::chmod(file.c_str(), 0600)));
  CHECK(fails(::chown(file.c_str(), 0, 0)));
  CHECK(fails(::utime(file.c_str(), nullptr)));
  CHECK(fails(::setxattr(file.c_str(), "user.x", "x", 1, 0)));
  CHECK(fails(::access(file.c_str(), W_OK)));
  CHECK(fails(::open(file.c_str(), O_WRONLY | O_APPEND)));
  CHECK(fails(::open(file.c_str(), O_RDWR | O_DIRECT)));
  CHECK(fails(::open(mounted.file("a").c_str(), O_TMPFILE | O_RDWR, 0600)));
  CHECK(fails(::mknod(missing.c_str(), S_IFREG | 0644, 0)));
  CHECK(fails(::lchown(file.c_str(), 0, 0)));
  CHECK(fails(::utimensat(AT_FDCWD, file.c_str(), nullptr, AT_SYMLINK_NOFOLLOW)));
  CHECK(fails(::removexattr(file.c_str(), "user.x")));
  CHECK(fails(::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, missing.c_str(), AT_SYMLINK_FOLLOW)));
  CHECK(fails(::renameat2(AT_FDCWD, file.c_str(), AT_FDCWD, mounted.file("b").c_str(), RENAME_EXCHANGE)));
}

TEST_CASE("nothing is written through a descriptor that was opened for reading") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 1000);
  mounted.start();
  const int fd = ::open(mounted.file(Mounted::sample_name(0)).c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  const auto fails_with = [](int error, long result) { return result < 0 && errno == error; };
  CHECK(fails_with(EROFS, ::fchmod(fd, 0600)));
  CHECK(fails_with(EROFS, ::fchown(fd, 0, 0)));
  CHECK(fails_with(EROFS, ::futimens(fd, nullptr)));
  CHECK(fails_with(EROFS, ::fsetxattr(fd, "user.x", "x", 1, 0)));
  CHECK(fails_with(EROFS, ::fremovexattr(fd, "user.x")));
  CHECK(fails_with(EBADF, ::write(fd, "x", 1)));
  CHECK(fails_with(EBADF, ::pwrite(fd, "x", 1, 0)));
  CHECK(fails_with(EBADF, ::fallocate(fd, 0, 0, 10)));
  CHECK(fails_with(EINVAL, ::ftruncate(fd, 0)));
  CHECK(::mmap(nullptr, 1000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
  CHECK(errno == EACCES);
  ::close(fd);
  CHECK(read_file(mounted.file(Mounted::sample_name(0))) == Mounted::sample_content(0, 1000));
}

TEST_CASE("the mount can lie over its own source") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, 10'000);
  headrace::test::TempDir copy;
  fs::copy(mounted.source().path(), copy.path(), fs::copy_options::recursive);
  mounted.options.mountpoint = mounted.source().path();
  mounted.options.over_source = true;
  mounted.options.ram_bytes = 1 << 20;
  mounted.start();
  for (unsigned i = 0; i < 4; ++i) {
    CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, 10'000));
  }
  CHECK(::access(mounted.file("a").c_str(), W_OK) != 0);
  CHECK(mounted.requests("LOOKUP") + mounted.requests("READDIRPLUS") > 0);
}

TEST_CASE("a mount point in use is refused and stays as it was") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 100);
  mounted.start();
  auto second = Mount::start(mounted.store(), mounted.options);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kBusy);
  CHECK(read_file(mounted.file(Mounted::sample_name(1))).size() == 100);
}

TEST_CASE("a dead mount at the mount point is cleared") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 100);
  {
    auto dead = open_channel({.mountpoint = mounted.path()});
    REQUIRE_MESSAGE(dead.has_value(), dead.error().message());
  }
  mounted.start();
  CHECK(read_file(mounted.file(Mounted::sample_name(1))).size() == 100);
  mounted.stop();
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("unmount clears a dead mount and may be repeated") {
  need_fuse();
  headrace::test::TempDir dir;
  {
    auto dead = open_channel({.mountpoint = dir.path()});
    REQUIRE_MESSAGE(dead.has_value(), dead.error().message());
  }
  CHECK(mounts_at(dir.path()).size() == 1);
  CHECK(unmount(dir.path()));
  CHECK(mounts_at(dir.path()).empty());
  CHECK(unmount(dir.path()));
}

TEST_CASE("a mount that has gone leaves alone the one that came to its place") {
  need_fuse();
  need_root();
  Mounted first;
  first.write_samples(4, 100);
  first.start();
  first.settle();
  const std::string device = mounts_at(first.path()).back().device;
  REQUIRE(::umount2(first.path().c_str(), 0) == 0);
  first.mount().wait();
  Mounted second;
  second.write_samples(4, 100);
  second.options.mountpoint = first.path();
  second.start();
  second.settle();
  WARN(mounts_at(first.path()).back().device == device);  // unless another test took the number that was free
  first.mount().stop();
  CHECK(mounts_at(first.path()).size() == 1);
  CHECK(read_file(second.file(Mounted::sample_name(1))).size() == 100);
}

// Reads all samples over and over until the first failure or until told to stop.
class Readers {
 public:
  Readers(const Mounted& mounted, unsigned threads, unsigned samples) {
    for (unsigned t = 0; t < threads; ++t) {
      threads_.emplace_back([&mounted, this, samples, t] {
        for (unsigned i = t; !stop_; ++i) {
          if (read_file(mounted.file(Mounted::sample_name(i % samples))).empty()) return;
          ++reads_;
        }
      });
    }
  }
  ~Readers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  void wait_for_reads(unsigned count) const {
    while (reads_ < count) std::this_thread::yield();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<unsigned> reads_ = 0;
  std::vector<std::thread> threads_;
};

TEST_CASE("stop ends the mount soon while readers are active") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(50, 100'000);
  mounted.options.ram_bytes = 2 << 20;
  mounted.start();
  Readers readers(mounted, 4, 50);
  readers.wait_for_reads(100);
  const auto start = steady_clock::now();
  mounted.mount().stop();
  CHECK(steady_clock::now() - start < std::chrono::seconds(20));  // to wait for readers takes for ever
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("who still has a file open when the mount stops gets an error, and does not wait") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(1, 1000);
  mounted.start();
  const io::UniqueFd file(::open(mounted.file(Mounted::sample_name(0)).c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file.valid());
  mounted.mount().stop();
  std::string content(1000, '\0');
  CHECK(::read(file.get(), content.data(), content.size()) == -1);
}

TEST_CASE("a mount that is in use refuses to be unmounted, and goes on") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, 1000);
  mounted.start();
  mounted.settle();
  const int fd = ::open(mounted.file(Mounted::sample_name(0)).c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  const std::string unmount_it = "fusermount3 -u " + mounted.path().string() + " 2>/dev/null";
  CHECK(std::system(unmount_it.c_str()) != 0);
  std::string content(1000, '\0');
  CHECK(::read(fd, content.data(), content.size()) == 1000);
  CHECK(content == Mounted::sample_content(0, 1000));
  CHECK(read_file(mounted.file(Mounted::sample_name(1))) == Mounted::sample_content(1, 1000));
  ::close(fd);
  CHECK(std::system(unmount_it.c_str()) == 0);
  mounted.mount().wait();
}

TEST_CASE("umount from outside ends the mount") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, 1000);
  mounted.options.ram_bytes = 1 << 20;
  mounted.start();
  mounted.settle();
  REQUIRE(std::system(("fusermount3 -u " + mounted.path().string()).c_str()) == 0);
  mounted.mount().wait();
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("permissions of the source hold for other users") {
  need_fuse();
  test::need_root();
  Mounted mounted;
  mounted.source().write("private", "secret");
  mounted.source().write("public", "open");
  fs::permissions(mounted.source().path(), fs::perms::all);
  fs::permissions(mounted.source().path() / "private", fs::perms::owner_read);
  mounted.options.allow_other = true;
  mounted.start();
  fs::permissions(mounted.path().parent_path(), fs::perms::all, fs::perm_options::add);
  constexpr uid_t kNobody = 65534;
  std::thread other([&] {  // set*id by the raw call changes this thread alone
    REQUIRE(::syscall(SYS_setresuid, kNobody, kNobody, kNobody) == 0);
    CHECK(read_file(mounted.file("public")) == "open");
    CHECK(::open(mounted.file("private").c_str(), O_RDONLY) < 0);
    CHECK(errno == EACCES);
  });
  other.join();
}

}  // namespace
}  // namespace headrace::fuse::mount_test
