// SPDX-License-Identifier: Apache-2.0
// Nobody gets what the source would deny him, and everybody what it would give, plain and below overlays.
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "headrace/cache/refresher.h"
#include "headrace/fuse/mount.h"

#include "fuse/mounted.h"

namespace headrace::fuse::permissions_test {
namespace {

namespace fs = std::filesystem;
using headrace::test::TempDir;
using io::ErrorCode;
using test::Mounted;
using test::need_fuse;
using test::need_root;
using test::read_file;

constexpr uid_t kOther = 65534;

enum class Layer { kPlain, kOverlay, kScratch };

// What a user who is not root reads there; "denied" or "stale", where that is the answer.
std::string read_as_other(const std::string& path) {
  std::array<int, 2> pipe = {};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_other = ::setgroups(0, nullptr) == 0 && ::setresgid(kOther, kOther, kOther) == 0 &&
                          ::setresuid(kOther, kOther, kOther) == 0;
    errno = 0;
    const std::string content = is_other ? read_file(path) : "root still";
    const std::string answer = errno == EACCES ? "denied" : errno == ESTALE ? "stale" : content;
    ::_exit(::write(pipe[1], answer.data(), answer.size()) < 0 ? 1 : 0);
  }
  ::close(pipe[1]);
  std::string answer(1 << 16, '\0');
  const ssize_t count = ::read(pipe[0], answer.data(), answer.size());
  ::close(pipe[0]);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  answer.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return answer;
}

// As `headrace refresh` does.
void refresh(Mounted& mounted) {
  std::atomic<bool> is_told = false;
  const cache::Refresher refresher(mounted.store(), {.on_told = [&] {
                                     mounted.mount().wait_until_forgotten();
                                     is_told = true;
                                   }});
  while (!is_told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A mount whose files anybody may read, with a folder of its own for what is written.
struct Served {
  explicit Served(Layer layer_in) : layer(layer_in) {
    mounted.source().write("a/f", "public");
    mounted.source().write("b/g", "other");
    fs::permissions(mounted.source().path(), fs::perms(0755));
    mounted.options.allow_other = true;
    start();
  }
  void start() {
    mounted.options.overlay = layer == Layer::kOverlay ? OverlayMode::kRequired : OverlayMode::kOff;
    if (layer == Layer::kScratch) mounted.options.scratch = scratch.path();
    mounted.open_store();
    auto tried = Mount::start(mounted.store(), mounted.options);
    if (!tried && (tried.error().code == ErrorCode::kUnsupported || tried.error().os_errno == ENODEV))
      headrace::test::skip("no overlay here: " + tried.error().message());
    REQUIRE_MESSAGE(tried.has_value(), tried.error().message());
    tried->reset();
    mounted.start();
  }
  [[nodiscard]] fs::path source(const std::string& name) const { return mounted.source().path() / name; }
  [[nodiscard]] std::string read(const char* name) const { return read_as_other(mounted.file(name)); }

  Layer layer;
  TempDir scratch;
  Mounted mounted;
};

Layer each_layer() {
  Layer layer = Layer::kPlain;
  SUBCASE("plain") {
    layer = Layer::kPlain;
  }
  SUBCASE("below an overlay") {
    layer = Layer::kOverlay;
  }
  SUBCASE("with a scratch folder") {
    layer = Layer::kScratch;
  }
  return layer;
}

// What setfacl -m u:65534:--- writes (linux/posix_acl_xattr.h): version 2, then tag, permissions and id of each entry.
bool deny_other(const fs::path& path, std::uint16_t rest) {
  struct Entry {
    std::uint16_t tag, permissions;
    std::uint32_t id;
  };
  struct {
    std::uint32_t version = 2;
    std::array<Entry, 5> entries;
  } acl;
  acl.entries = {{{0x01, 7, UINT32_MAX},
                  {0x02, 0, kOther},
                  {0x04, rest, UINT32_MAX},
                  {0x10, rest, UINT32_MAX},
                  {0x20, rest, UINT32_MAX}}};
  return ::setxattr(path.c_str(), "system.posix_acl_access", &acl, sizeof(acl), 0) == 0;
}

TEST_CASE("what the source denies is denied after a refresh, and what it gives is given") {
  need_fuse();
  need_root();
  Served served(each_layer());
  REQUIRE(served.read("a/f") == "public");
  REQUIRE(served.read("b/g") == "other");

  fs::permissions(served.source("a/f"), fs::perms(0600));
  refresh(served.mounted);
  CHECK(served.read("a/f") == "denied");
  CHECK(read_file(served.mounted.file("a/f")) == "public");
  CHECK(served.read("b/g") == "other");
  fs::permissions(served.source("a/f"), fs::perms(0644));
  refresh(served.mounted);
  CHECK(served.read("a/f") == "public");

  served.mounted.source().write("new", "secret");
  fs::permissions(served.source("new"), fs::perms(0600));
  fs::rename(served.source("new"), served.source("a/f"));
  refresh(served.mounted);
  CHECK(served.read("a/f") == "denied");
  CHECK(read_file(served.mounted.file("a/f")) == "secret");
  REQUIRE(::chown(served.source("a/f").c_str(), kOther, kOther) == 0);
  refresh(served.mounted);
  CHECK(served.read("a/f") == "secret");
}

TEST_CASE("a folder that is closed in the source is closed after a refresh, though somebody is in it") {
  need_fuse();
  need_root();
  Served served(each_layer());
  const std::string file = served.mounted.file("a/f");
  const int inside = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(inside >= 0);
  REQUIRE(served.read("a/f") == "public");
  for (const std::string folder : {"a", "."}) {
    CAPTURE(folder);
    fs::permissions(served.source(folder), fs::perms(0700));
    refresh(served.mounted);
    CHECK(served.read("a/f") == "denied");
    CHECK(read_file(file) == "public");
    fs::permissions(served.source(folder), fs::perms(0755));
    refresh(served.mounted);
    CHECK(served.read("a/f") == "public");
    if (!deny_other(served.source(folder), 5)) continue;  // no ACLs on this file system
    refresh(served.mounted);
    CHECK(served.read("a/f") == "denied");
    REQUIRE(::removexattr(served.source(folder).c_str(), "system.posix_acl_access") == 0);
    fs::permissions(served.source(folder), fs::perms(0755));
    refresh(served.mounted);
    CHECK(served.read("a/f") == "public");
  }
  ::close(inside);
}

TEST_CASE("a file that gets an ACL is denied after a refresh") {
  need_fuse();
  need_root();
  Served served(each_layer());
  REQUIRE(served.read("a/f") == "public");
  if (!deny_other(served.source("a/f"), 4)) headrace::test::skip("no ACLs on this file system");
  refresh(served.mounted);
  CHECK(served.read("a/f") == "denied");
  CHECK(served.read("b/g") == "other");
}

TEST_CASE("folders in a scratch folder have the mode and owner that the source has when it is mounted again") {
  need_fuse();
  need_root();
  Served served(Layer::kScratch);
  {
    const int made = ::open(served.mounted.file("a/new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    REQUIRE(made >= 0);
    ::close(made);
  }
  REQUIRE(fs::exists(served.scratch.path() / "upper/a/new"));
  REQUIRE(served.read("a/f") == "public");
  served.mounted.stop();
  for (const std::string folder : {"a", "."}) {
    CAPTURE(folder);
    fs::permissions(served.source(folder), fs::perms(0700));
    served.start();
    CHECK(served.read("a/f") == "denied");
    served.mounted.stop();
    fs::permissions(served.source(folder), fs::perms(0755));
    served.start();
    CHECK(served.read("a/f") == "public");
    CHECK(fs::exists(served.mounted.file("a/new")));
    served.mounted.stop();
  }
}

TEST_CASE("a folder that a job has put in the place of the source's stays as the job made it") {
  need_fuse();
  need_root();
  Served served(Layer::kScratch);
  fs::remove_all(served.mounted.file("a"));
  fs::create_directory(served.mounted.file("a"));
  fs::permissions(served.mounted.file("a"), fs::perms(0711));
  const auto mode = [&] { return static_cast<unsigned>(fs::status(served.mounted.file("a")).permissions()); };
  fs::permissions(served.source("a"), fs::perms(0700));
  refresh(served.mounted);
  CHECK(mode() == 0711);
  served.mounted.stop();
  served.start();
  CHECK(mode() == 0711);
}

TEST_CASE("a mount that is not for others is not for them below an overlay either") {
  need_fuse();
  need_root();
  Served served(each_layer());
  served.mounted.stop();
  served.mounted.options.allow_other = false;
  served.start();
  CHECK(served.read("a/f") == "denied");
  CHECK(read_file(served.mounted.file("a/f")) == "public");
}

TEST_CASE("who reads a file that is replaced meanwhile gets no mix, below an overlay either") {
  need_fuse();
  need_root();
  Served served(each_layer());
  constexpr std::size_t kBytes = 24 << 20;
  constexpr std::size_t kStep = 1 << 20;
  served.mounted.stop();
  served.mounted.source().write("a/large", std::string(kBytes, 'o'));
  served.start();
  const std::string file = served.mounted.file("a/large");
  const int reader = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(reader >= 0);
  std::string buffer(kStep, '\0');
  bool has_failed = false;
  for (std::size_t at = 0; at < kBytes; at += kStep) {
    if (at == kBytes / 2) {
      served.mounted.source().write("new", std::string(kBytes, 'n'));
      fs::rename(served.source("new"), served.source("a/large"));
      refresh(served.mounted);
    }
    const ssize_t count = ::pread(reader, buffer.data(), kStep, static_cast<off_t>(at));
    if (count < 0) CHECK(errno == ESTALE);
    has_failed |= count < 0;
    if (count > 0) CHECK(buffer.find('n') == std::string::npos);
  }
  CHECK(has_failed);
  ::close(reader);
  // While it was open the overlay kept the old one under this name; who asks has it forgotten.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (read_file(file) != std::string(kBytes, 'n') && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(read_file(file) == std::string(kBytes, 'n'));
}

}  // namespace
}  // namespace headrace::fuse::permissions_test
