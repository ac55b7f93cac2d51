// SPDX-License-Identifier: Apache-2.0
// Every way to get at bytes, compared with the same call on the source.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/mounted.h"
#include "support/fault_engine.h"

namespace headrace::fuse::access_test {
namespace {

namespace fs = std::filesystem;
using test::Mounted;
using test::need_fuse;
using test::read_file;

constexpr std::size_t kOddBytes = 300'007;  // three READs at the default readahead, the last one of odd length

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {
    REQUIRE_MESSAGE(fd_ >= 0, path);
  }
  explicit Descriptor(int fd) : fd_(fd) { REQUIRE(fd_ >= 0); }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }  // NOLINT: stands for the descriptor

 private:
  int fd_;
};

// One file, cold where `ram_bytes` is 0, else pushed.
std::string start_with_file(Mounted& mounted, std::uint64_t ram_bytes) {
  mounted.source().write("a/odd.jpg", Mounted::sample_content(5, kOddBytes));
  mounted.options.ram_bytes = ram_bytes;
  mounted.start();
  if (ram_bytes > 0) REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  return mounted.file("a/odd.jpg");
}

void for_cold_and_pushed(const std::function<void(const std::string& file, const std::string& expected)>& body) {
  need_fuse();
  const std::string expected = Mounted::sample_content(5, kOddBytes);
  for (const std::uint64_t ram_bytes : {0U, 8U << 20}) {
    Mounted mounted;
    const std::string file = start_with_file(mounted, ram_bytes);
    CAPTURE(ram_bytes);
    body(file, expected);
  }
}

TEST_CASE("preads at odd offsets, in any order, return the source's bytes") {
  for_cold_and_pushed([](const std::string& file, const std::string& expected) {
    const Descriptor fd(file, O_RDONLY);
    std::mt19937 random(11);
    std::vector<char> buffer(100'000);
    for (int round = 0; round < 300; ++round) {
      const std::size_t offset = random() % (kOddBytes + 1000);
      const std::size_t length = random() % buffer.size();
      const ssize_t count = ::pread(fd, buffer.data(), length, static_cast<off_t>(offset));
      const std::size_t wanted = offset < kOddBytes ? std::min(length, kOddBytes - offset) : 0;
      REQUIRE(count == static_cast<ssize_t>(wanted));
      REQUIRE(std::memcmp(buffer.data(), expected.data() + std::min(offset, kOddBytes), wanted) == 0);
    }
  });
}

// In the manner of fsx: whatever was done to the file before, every read sees the same bytes.
TEST_CASE("random reads of every kind on one descriptor return the source's bytes") {
  for_cold_and_pushed([](const std::string& file, const std::string& expected) {
    const Descriptor fd(file, O_RDONLY);
    std::mt19937 random(23);
    std::string buffer(kOddBytes, '\0');
    for (int round = 0; round < 400; ++round) {
      const std::size_t offset = random() % kOddBytes;
      const std::size_t length = 1 + random() % (kOddBytes - offset);
      const auto at = static_cast<off_t>(offset);
      const std::string_view wanted(expected.data() + offset, length);
      switch (random() % 5) {
        case 0:
          REQUIRE(::pread(fd, buffer.data(), length, at) == static_cast<ssize_t>(length));
          REQUIRE(std::string_view(buffer.data(), length) == wanted);
          break;
        case 1:
          REQUIRE(::lseek(fd, at, SEEK_SET) == at);
          REQUIRE(::read(fd, buffer.data(), length) == static_cast<ssize_t>(length));
          REQUIRE(std::string_view(buffer.data(), length) == wanted);
          break;
        case 2: {
          void* memory = ::mmap(nullptr, kOddBytes, PROT_READ, MAP_SHARED, fd, 0);
          REQUIRE(memory != MAP_FAILED);
          REQUIRE(std::string_view(static_cast<const char*>(memory) + offset, length) == wanted);
          ::munmap(memory, kOddBytes);
          break;
        }
        case 3:
          CHECK(::posix_fadvise(fd, at, static_cast<off_t>(length), POSIX_FADV_DONTNEED) == 0);
          break;
        case 4:
          CHECK(::readahead(fd, at, length) == 0);
          break;
      }
    }
  });
}

TEST_CASE("a file of 0 bytes is there, and empty, cold and pushed") {
  need_fuse();
  for (const std::uint64_t ram_bytes : {0U, 1U << 20}) {
    Mounted mounted;
    mounted.source().write("a/empty.jpg", "");
    mounted.options.ram_bytes = ram_bytes;
    mounted.start();
    const Descriptor fd(mounted.file("a/empty.jpg"), O_RDONLY);
    char byte = 0;
    CHECK(::read(fd, &byte, 1) == 0);
    CHECK(::lseek(fd, 0, SEEK_END) == 0);
  }
}

// The names that a watch of somebody else reports, with what happened, in order; nothing more for as long as
// `quiet_ms`.
std::vector<std::string> events_of(int inotify_fd, int quiet_ms) {
  std::vector<std::string> events;
  alignas(inotify_event) std::array<char, 4096> buffer = {};
  pollfd waited = {inotify_fd, POLLIN, 0};
  while (::poll(&waited, 1, quiet_ms) > 0) {
    const ssize_t count = ::read(inotify_fd, buffer.data(), buffer.size());
    for (ssize_t at = 0; at < count;) {
      inotify_event event = {};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      const char* name = event.len > 0 ? buffer.data() + at + sizeof(event) : "";
      if ((event.mask & IN_ISDIR) == 0) events.push_back(std::to_string(event.mask) + " " + name);
      at += static_cast<ssize_t>(sizeof(event) + event.len);
    }
  }
  return events;
}

TEST_CASE("inotify watches of others see what readers do, and nothing of what is pushed") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(8, 20'000);
  mounted.start();
  mounted.settle();
  const Descriptor watches(::inotify_init1(IN_NONBLOCK));
  REQUIRE(::inotify_add_watch(watches, mounted.file("a").c_str(), IN_ALL_EVENTS) >= 0);
  mounted.mount().set_ram_bytes(8 * 20'000);
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  mounted.mount().set_ram_bytes(0);
  mounted.settle();
  CHECK(events_of(watches, 50).empty());
  CHECK(read_file(mounted.file("a/000004.jpg")).size() == 20'000);
  const std::vector<std::string> events = events_of(watches, 200);
  CHECK(std::find(events.begin(), events.end(), std::to_string(IN_OPEN) + " 000004.jpg") != events.end());
  CHECK(std::find(events.begin(), events.end(), std::to_string(IN_CLOSE_NOWRITE) + " 000004.jpg") != events.end());
}

TEST_CASE("readv fills all its parts") {
  for_cold_and_pushed([](const std::string& file, const std::string& expected) {
    const Descriptor fd(file, O_RDONLY);
    std::string content(kOddBytes, '\0');
    const std::array<iovec, 3> parts = {
        {{content.data(), 1}, {content.data() + 1, 150'000}, {content.data() + 150'001, kOddBytes - 150'001}}};
    CHECK(::readv(fd, parts.data(), parts.size()) == static_cast<ssize_t>(kOddBytes));
    CHECK(content == expected);
  });
}

TEST_CASE("a mapped file has the source's bytes, and zeroes after its end") {
  for_cold_and_pushed([](const std::string& file, const std::string& expected) {
    const Descriptor fd(file, O_RDONLY);
    for (const int sharing : {MAP_SHARED, MAP_PRIVATE}) {
      void* memory = ::mmap(nullptr, kOddBytes, PROT_READ, sharing, fd, 0);
      REQUIRE(memory != MAP_FAILED);
      const auto* bytes = static_cast<const char*>(memory);
      CHECK(std::memcmp(bytes, expected.data(), kOddBytes) == 0);
      CHECK(bytes[kOddBytes] == '\0');
      ::munmap(memory, kOddBytes);
    }
  });
}

TEST_CASE("a file opened with O_DIRECT reads the same") {
  for_cold_and_pushed([](const std::string& file, const std::string& expected) {
    const Descriptor fd(file, O_RDONLY | O_DIRECT);
    const std::size_t room = (kOddBytes + 4095) / 4096 * 4096;
    const std::unique_ptr<char, decltype(&std::free)> buffer(static_cast<char*>(std::aligned_alloc(4096, room)),
                                                             &std::free);
    std::size_t filled = 0;
    for (ssize_t count = 1; count > 0; filled += static_cast<std::size_t>(count)) {
      count = ::pread(fd, buffer.get() + filled, room - filled, static_cast<off_t>(filled));
      REQUIRE(count >= 0);
    }
    REQUIRE(filled == kOddBytes);
    CHECK(std::memcmp(buffer.get(), expected.data(), kOddBytes) == 0);
  });
}

TEST_CASE("sendfile and splice carry the source's bytes") {
  for_cold_and_pushed([](const std::string& file, const std::string& expected) {
    const headrace::test::TempDir dir;
    const std::string copy = dir.write("copy", "");
    const Descriptor from(file, O_RDONLY);
    const Descriptor to(copy, O_WRONLY);
    CHECK(::sendfile(to, from, nullptr, kOddBytes) == static_cast<ssize_t>(kOddBytes));
    CHECK(read_file(copy) == expected);

    std::array<int, 2> pipe = {};
    REQUIRE(::pipe(pipe.data()) == 0);
    off_t offset = 4097;
    std::string spliced(10'000, '\0');
    REQUIRE(::splice(from, &offset, pipe[1], nullptr, spliced.size(), 0) == static_cast<ssize_t>(spliced.size()));
    REQUIRE(::read(pipe[0], spliced.data(), spliced.size()) == static_cast<ssize_t>(spliced.size()));
    CHECK(spliced == expected.substr(4097, spliced.size()));
    ::close(pipe[0]);
    ::close(pipe[1]);
  });
}

TEST_CASE("copy_file_range and seeking for data behave as on a plain file") {
  for_cold_and_pushed([](const std::string& file, const std::string& expected) {
    const headrace::test::TempDir dir;
    const std::string copy = dir.write("copy", "");
    const Descriptor from(file, O_RDONLY);
    CHECK(::lseek(from, 0, SEEK_END) == static_cast<off_t>(kOddBytes));
    CHECK(::lseek(from, 0, SEEK_DATA) == 0);
    CHECK(::lseek(from, 5, SEEK_HOLE) == static_cast<off_t>(kOddBytes));
    std::error_code failure;
    fs::copy_file(file, copy, fs::copy_options::overwrite_existing, failure);
    CHECK_FALSE(failure);
    CHECK(read_file(copy) == expected);
  });
}

TEST_CASE("a sparse file of 20 GB is read right at its start, its middle and its end") {
  need_fuse();
  Mounted mounted;
  constexpr off_t kSize = 20'000'000'001;
  const std::string source = mounted.source().write("a/large.bin", "start");
  REQUIRE(::truncate(source.c_str(), kSize) == 0);
  {
    const Descriptor fd(source, O_WRONLY);
    REQUIRE(::pwrite(fd, "middle", 6, 9'999'999'999) == 6);
    REQUIRE(::pwrite(fd, "end", 3, kSize - 3) == 3);
  }
  mounted.options.ram_bytes = 16 << 20;
  mounted.start();
  const Descriptor fd(mounted.file("a/large.bin"), O_RDONLY);
  std::array<char, 8> buffer = {};
  CHECK(::pread(fd, buffer.data(), 8, 0) == 8);
  CHECK(std::string(buffer.data(), 8) == std::string("start\0\0\0", 8));
  CHECK(::pread(fd, buffer.data(), 8, 9'999'999'998) == 8);
  CHECK(std::string(buffer.data(), 8) == std::string("\0middle\0", 8));
  CHECK(::pread(fd, buffer.data(), 8, kSize - 4) == 4);
  CHECK(std::string(buffer.data(), 4) == std::string("\0end", 4));
}

TEST_CASE("many processes read at once and all see the source's bytes") {
  need_fuse();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr unsigned kProcesses = 24;  // each has a sanitizer's tables of its own to copy
#else
  constexpr unsigned kProcesses = 128;
#endif
  Mounted mounted;
  constexpr unsigned kSamples = 40;
  constexpr std::size_t kBytes = 60'000;
  mounted.write_samples(kSamples, kBytes);
  mounted.options.ram_bytes = kSamples / 2 * kBytes;  // half pushed, half asked for
  std::vector<std::string> expected;
  for (unsigned i = 0; i < kSamples; ++i) expected.push_back(Mounted::sample_content(i, kBytes));
  std::vector<pid_t> children;
  // Forked before the mount has threads: a child of many threads may find the thread sanitizer's own locks taken.
  std::array<int, 2> gate{};
  REQUIRE(::pipe2(gate.data(), O_CLOEXEC) == 0);
  for (unsigned process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      char go = 0;
      ::close(gate[1]);
      if (::read(gate[0], &go, 1) != 1) ::_exit(2);
      for (unsigned i = 0; i < kSamples; ++i) {
        const unsigned number = (i * 7 + process) % kSamples;
        if (read_file(mounted.file(Mounted::sample_name(number))) != expected[number]) ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  mounted.start();
  REQUIRE(::write(gate[1], std::string(children.size(), 'g').data(), children.size()) ==
          static_cast<ssize_t>(children.size()));
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  ::close(gate[0]);
  ::close(gate[1]);
}

int shell(const std::string& command) {
  return std::system(("( " + command + " ) >/dev/null 2>&1").c_str());
}

TEST_CASE("find, tar, cp, rsync and git see the same tree in the mount as in the source") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(30, 5'000);
  mounted.source().write("deep/er/still/file with blank", "x");
  fs::create_symlink("../a", mounted.source().path() / "deep/link");
  const std::string source = mounted.source().path().string();
  if (shell("cd " + source + " && git init -q . && git add a && git -c user.name=x -c user.email=x@x commit -qm x") !=
      0) {
    MESSAGE("no git: left out");
  }
  mounted.start();
  const std::string mount = mounted.path().string();
  const headrace::test::TempDir dir;
  const std::string out = dir.path().string();
  const auto same = [&](const std::string& command) {
    return shell("cd " + source + " && " + command + " > " + out + "/1 && cd " + mount + " && " + command + " > " +
                 out + "/2 && cmp " + out + "/1 " + out + "/2") == 0;
  };
  CHECK(same("find . -printf '%p %y %m %s %T@ %l\\n' | sort"));
  CHECK(same("tar --sort=name -cf - ."));
  CHECK(shell("cp -a " + mount + " " + out + "/copy && diff -r --no-dereference " + source + " " + out + "/copy") == 0);
  if (shell("command -v rsync") == 0) CHECK(shell("test -z \"$(rsync -ainc " + source + "/ " + mount + "/)\"") == 0);
  if (fs::exists(source + "/.git")) CHECK(shell("git -C " + mount + " -c safe.directory='*' status --porcelain") == 0);
}

TEST_CASE("a folder replaced by a symlink out of the source leads nowhere") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 6);
  mounted.start();
  mounted.settle();
  const headrace::test::TempDir outside;
  outside.write("000000.jpg", "secret");
  fs::rename(mounted.source().path() / "a", outside.path() / "moved");
  fs::create_directory_symlink(outside.path(), mounted.source().path() / "a");
  CHECK(read_file((mounted.source().path() / Mounted::sample_name(0)).string()) == "secret");
  CHECK(read_file(mounted.file(Mounted::sample_name(0))).empty());
}

TEST_CASE("reads of a failing source give the file's bytes or an error, and work once the source does") {
  need_fuse();
  constexpr unsigned kFiles = 15;  // failed attempts wait for 20 and 250 ms
  constexpr std::size_t kBytes = 30'000;
  Mounted mounted;
  mounted.write_samples(kFiles, kBytes);
  // Half of all operations: after its three attempts one read in eight has failed.
  mounted.make_source_engine = []() -> io::Result<std::unique_ptr<io::Engine>> {
    auto engine = io::open_engine({});
    if (!engine) return engine;
    return std::unique_ptr<io::Engine>(headrace::test::open_fault_engine(
        std::move(*engine), {.seed = 3, .error_one_in = 2, .delay_one_in = 4, .reorder = true}));
  };
  mounted.start();
  for (unsigned i = 0; i < kFiles; ++i) {
    std::string content;
    for (int attempt = 0; content.empty() && attempt < 30; ++attempt) {
      content = read_file(mounted.file(Mounted::sample_name(i)));
      if (content.empty()) CHECK(errno == EIO);
    }
    CHECK(content == Mounted::sample_content(i, kBytes));
  }
}

TEST_CASE("a file that shrank under the mount is an error, not wrong bytes") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 50'000);
  mounted.start();
  mounted.settle();
  REQUIRE(::truncate((mounted.source().path() / Mounted::sample_name(1)).c_str(), 10) == 0);
  CHECK(read_file(mounted.file(Mounted::sample_name(1))).empty());
  CHECK(read_file(mounted.file(Mounted::sample_name(0))) == Mounted::sample_content(0, 50'000));
  CHECK(mounted.mount().stats().read_failures > 0);
}

TEST_CASE("a source that vanishes under the mount is an error for each file") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 5'000);
  mounted.start();
  mounted.settle();
  fs::remove_all(mounted.source().path() / "a");
  CHECK(read_file(mounted.file(Mounted::sample_name(0))).empty());
  CHECK(read_file(mounted.file(Mounted::sample_name(1))).size() == 5'000);
}

}  // namespace
}  // namespace headrace::fuse::access_test
