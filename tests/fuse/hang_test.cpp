// SPDX-License-Identifier: Apache-2.0
// Storage that does not answer: the mount must be able to end all the same, and nobody may hang for good.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/io/buffer.h"

#include "fuse/hanging_store.h"
#include "fuse/mounted.h"

namespace headrace::fuse::hang_test {
namespace {

using std::chrono::steady_clock;
using test::HangingStore;
using test::Mounted;
using test::need_fuse;
using test::need_root;
using test::read_file;

TEST_CASE("a mount ends though storage holds a reader up, and the answer may come later") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  std::thread reader(
      [&] { CHECK(read_file(mounted.file(Mounted::sample_name(0))) == Mounted::sample_content(0, 50'000)); });
  store.wait_for_a_read();
  const auto start = steady_clock::now();
  (*mount)->stop();
  CHECK(steady_clock::now() - start < std::chrono::seconds(30));  // the read goes on
  mount->reset();
  CHECK(mounts_at(mounted.path()).empty());
  store.let_go();
  reader.join();
}

// A process that opens a file past the page cache, so that the kernel keeps it until its READ is answered, and reads
// it. Its handler of SIGUSR1 does nothing. It ends with 0 if it got `bytes`.
class Reader {
 public:
  Reader(const std::string& file, std::size_t bytes) : buffer_(io::Buffer::allocate(std::size_t{64} << 10).value()) {
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ > 0) return;
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &nothing, nullptr);
    const int fd = ::open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    ::_exit(::read(fd, buffer_.data(), buffer_.capacity()) == static_cast<ssize_t>(bytes) ? 0 : 1);
  }
  ~Reader() { end(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void signal(int number) const { ::kill(child_, number); }
  // Waits until it is gone; false at the end of a long while.
  [[nodiscard]] bool ends() {
    const auto until = steady_clock::now() + std::chrono::seconds(60);
    while (steady_clock::now() < until) {
      if (::waitpid(child_, &status_, WNOHANG) == child_) {
        child_ = -1;
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  [[nodiscard]] bool was_killed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL; }
  [[nodiscard]] bool has_read() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }
  void end() {
    if (child_ < 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, &status_, 0);
    child_ = -1;
  }

 private:
  io::Buffer buffer_;
  pid_t child_ = -1;
  int status_ = 0;
};

TEST_CASE("a process that is killed while storage holds it up is gone, and the storage still hangs") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  Reader reader(mounted.file(Mounted::sample_name(0)), 50'000);
  store.wait_for_a_read();
  SUBCASE("at once") {}
  SUBCASE("after a signal that it has a handler for") {
    reader.signal(SIGUSR1);
  }
  reader.signal(SIGKILL);
  const bool ended = reader.ends();
  CHECK(ended);
  CHECK(store.held_reads() == 1);  // the read goes on, and its answer finds nobody
  store.let_go();
  reader.end();
  CHECK(reader.was_killed());
  CHECK(read_file(mounted.file(Mounted::sample_name(0))) == Mounted::sample_content(0, 50'000));
}

TEST_CASE("a process that handles a signal while storage holds it up gets its bytes") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(2, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  Reader reader(mounted.file(Mounted::sample_name(0)), 50'000);
  store.wait_for_a_read();
  reader.signal(SIGUSR1);
  store.let_go();
  CHECK(reader.ends());
  CHECK(reader.has_read());
}

TEST_CASE("a source that does not tell whether a file has an ACL for a moment closes it to others for that long") {
  need_fuse();
  need_root();
  Mounted mounted;
  mounted.write_samples(2, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  store.tell_acls(false);
  mounted.options.allow_other = true;
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  const auto mode = [&] {
    struct stat status {};
    REQUIRE(::stat(mounted.file(Mounted::sample_name(0)).c_str(), &status) == 0);
    return status.st_mode & 0777;
  };
  const auto until = steady_clock::now() + std::chrono::seconds(60);
  const auto wait_until = [&](const auto& holds) {
    while (!holds() && steady_clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return holds();
  };
  REQUIRE(wait_until([&] { return (*mount)->stats().listed; }));  // which asks for all attributes
  CHECK(mode() == 0600);
  store.tell_acls(true);
  CHECK(wait_until([&] { return mode() == 0644; }));
}

TEST_CASE("while threads of the mount wait for storage, one stays ready for whoever else asks") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  store.hold_callers();
  mounted.options.session_threads = 3;
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 3; ++i) {
    readers.emplace_back(
        [&, i] { CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, 50'000)); });
  }
  store.wait_for_reads(3);
  const unsigned held = store.held_callers();
  const bool answers = held < 3 && std::filesystem::exists(mounted.file(Mounted::sample_name(3)));
  store.let_go();
  for (std::thread& reader : readers) reader.join();
  CHECK(held == 2);
  CHECK(answers);
}

TEST_CASE("a push that waits for a page which a hanging READ has locked does not hold up the end of the mount") {
  need_fuse();
  need_root();
  Mounted mounted;
  mounted.write_samples(4, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  std::thread reader([&] {
    const std::string content = read_file(mounted.file(Mounted::sample_name(0)));
    // The READ is aborted, but the push that waited for it may have brought the page.
    CHECK((content.empty() || content == Mounted::sample_content(0, 50'000)));
  });
  store.wait_for_a_read();
  (*mount)->set_ram_bytes(1 << 20);  // the file that is being read is pushed too
  // Where the push of that very file comes first, it waits at once and nothing is counted: then this is what must not
  // hold up the end.
  const auto until = steady_clock::now() + std::chrono::seconds(2);
  while ((*mount)->stats().pushed_samples == 0 && (*mount)->stats().held_samples == 0 && steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto start = steady_clock::now();
  (*mount)->stop();
  CHECK(steady_clock::now() - start < std::chrono::seconds(20));  // to wait for the store takes for ever
  store.let_go();                                                 // where nobody was held up there was nothing to abort
  reader.join();
  mount->reset();
  CHECK(mounts_at(mounted.path()).empty());
}

TEST_CASE("a push that waits for a page which a hanging READ has locked holds up no other sample") {
  need_fuse();
  need_root();
  Mounted mounted;
  mounted.write_samples(4, 50'000);
  mounted.open_store();
  HangingStore store(mounted.store());
  mounted.options.push_threads = 2;
  auto mount = Mount::start(store, mounted.options);
  REQUIRE_MESSAGE(mount.has_value(), mount.error().message());
  std::thread reader(
      [&] { CHECK(read_file(mounted.file(Mounted::sample_name(0))) == Mounted::sample_content(0, 50'000)); });
  store.wait_for_a_read();
  (*mount)->set_ram_bytes(1 << 20);  // the file that is being read is pushed first
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while ((*mount)->stats().pushed_samples < 3 && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK((*mount)->stats().pushed_samples == 3);
  store.let_go();
  reader.join();
}

}  // namespace
}  // namespace headrace::fuse::hang_test
