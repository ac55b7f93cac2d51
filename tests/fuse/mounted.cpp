// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounted.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace headrace::fuse::test {
namespace fs = std::filesystem;

void need_fuse() {
  const int fd = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd < 0) headrace::test::skip("no usable /dev/fuse");
  ::close(fd);
}

void need_root() {
  if (::geteuid() != 0) headrace::test::skip("needs root");
}

namespace {

// A process that is killed while one of its threads waits for its own mount cannot end: those that would answer are
// gone first. So somebody else unmounts what it leaves behind, which ends the wait. A process of its own session, out
// of reach of whoever kills a test with all that the test has started.
void clean_up_after_kill(const fs::path& mountpoint) {
  if (::geteuid() != 0) return;
  const std::string pid = std::to_string(::getpid());
  const char* const script = R"(
    while sleep 2; do
      case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status") in
        '') break ;;
        Z | X) umount -f "$2"; break ;;
      esac
    done
    umount -l "$2")";
  const pid_t starter = ::fork();
  if (starter == 0) {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {0, 1, 2}) ::dup2(nothing, fd);
    if (::setsid() < 0 || ::fork() != 0) ::_exit(0);
    ::execl("/bin/sh", "sh", "-c", script, "sh", pid.c_str(), mountpoint.c_str(), static_cast<char*>(nullptr));
    ::_exit(1);
  }
  ::waitpid(starter, nullptr, 0);
}

}  // namespace

Mounted::Mounted() {
  options.mountpoint = mountpoint_.path();
  clean_up_after_kill(mountpoint_.path());
}

Mounted::~Mounted() {
  stop();
  const io::Status unmounted = unmount(options.mountpoint);
  if (!unmounted) std::fprintf(stderr, "%s\n", unmounted.error().message().c_str());
  store_.reset();
  if (source_fd_ >= 0) ::close(source_fd_);
}

std::string Mounted::sample_name(unsigned number) {
  std::array<char, 32> name = {};
  std::snprintf(name.data(), name.size(), "%c/%06u.jpg", number % 2 == 0 ? 'a' : 'b', number);
  return name.data();
}

std::string Mounted::sample_content(unsigned number, std::size_t bytes) {
  return std::string(headrace::test::as_text(headrace::test::pattern_bytes(bytes, number)));
}

void Mounted::write_samples(unsigned count, std::size_t bytes) {
  for (unsigned i = 0; i < count; ++i) source_.write(sample_name(i), sample_content(i, bytes));
}

void Mounted::open_store() {
  source_fd_ = ::open(source_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  auto opened = cache::Store::open({.source = source_.path(),
                                    .source_fd = source_fd_,
                                    .ram_bytes = 32 << 20,
                                    .make_source_engine = make_source_engine});
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
  store_ = std::move(*opened);
}

void Mounted::start() {
  if (!store_) open_store();
  auto mounted = Mount::start(*store_, options);
  REQUIRE_MESSAGE(mounted.has_value(), mounted.error().message());
  mount_ = std::move(*mounted);
}

void Mounted::stop() {
  mount_.reset();
}

std::uint64_t Mounted::requests(std::string_view name) const {
  for (const RequestCount& request : mount_->stats().requests) {
    if (request.name == name) return request.count;
  }
  return 0;
}

void Mounted::settle() {
  constexpr int kQuietRoundsWanted = 5;
  int quiet_rounds = 0;
  std::uint64_t last = 0;
  while (!mount_->stats().listed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int round = 0; round < 400 && quiet_rounds < kQuietRoundsWanted; ++round) {
    const MountStats stats = mount_->stats();
    const std::uint64_t now = stats.request_total + stats.pushed_samples + stats.opens;
    quiet_rounds = now == last ? quiet_rounds + 1 : 0;
    last = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(quiet_rounds == kQuietRoundsWanted);
}

void until_pages_stay(const std::function<bool()>& round) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(round());
#else
  constexpr int kRoundsMax = 5;  // one is lost in some hundred runs on a busy machine
  for (int i = 1; i <= kRoundsMax; ++i) {
    if (round()) return;
    MESSAGE("round ", i, ": more requests than expected; the kernel may have dropped pages");
  }
  FAIL("more requests than expected in each of ", kRoundsMax, " rounds");
#endif
}

std::string read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  struct stat status {};
  ::fstat(fd, &status);
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t count = ::read(fd, content.data() + filled, content.size() - filled);
    if (count <= 0) break;
    filled += static_cast<std::size_t>(count);
  }
  const int failure = errno;
  ::close(fd);
  errno = failure;
  content.resize(filled);
  return content;
}

namespace {

std::map<std::string, unsigned char> list(const fs::path& directory) {
  std::map<std::string, unsigned char> names;
  DIR* stream = ::opendir(directory.c_str());
  REQUIRE(stream != nullptr);
  while (const dirent* entry = ::readdir(stream)) names[entry->d_name] = entry->d_type;
  ::closedir(stream);
  return names;
}

std::string describe(const struct stat& status) {
  // Sizes of directories are the file system's own business.
  const long long size = S_ISDIR(status.st_mode) ? 0 : static_cast<long long>(status.st_size);
  std::array<char, 160> text = {};
  std::snprintf(text.data(), text.size(), "mode %o owner %u:%u size %lld mtime %lld.%09ld links %lu", status.st_mode,
                status.st_uid, status.st_gid, size, static_cast<long long>(status.st_mtim.tv_sec),
                status.st_mtim.tv_nsec, static_cast<unsigned long>(status.st_nlink));
  return text.data();
}

std::string content_of(const fs::path& path, mode_t mode) {
  if (S_ISLNK(mode)) return fs::read_symlink(path).string();
  return S_ISREG(mode) ? read_file(path.string()) : std::string();
}

}  // namespace

std::string difference(const fs::path& expected, const fs::path& actual) {
  struct stat left {};
  struct stat right {};
  if (::lstat(expected.c_str(), &left) != 0 || ::lstat(actual.c_str(), &right) != 0) return actual.string() + ": lstat";
  if (describe(left) != describe(right)) return actual.string() + ": " + describe(right) + " not " + describe(left);
  if (content_of(expected, left.st_mode) != content_of(actual, right.st_mode)) return actual.string() + ": content";
  if (!S_ISDIR(left.st_mode)) return {};
  const auto names = list(expected);
  if (names != list(actual)) return actual.string() + ": names";
  for (const auto& [name, type] : names) {
    if (name == "." || name == "..") continue;
    if (std::string found = difference(expected / name, actual / name); !found.empty()) return found;
  }
  return {};
}

}  // namespace headrace::fuse::test
