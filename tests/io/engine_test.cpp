// SPDX-License-Identifier: Apache-2.0
// One body over every engine; plain file contents are the oracle.
#include "headrace/io/engine.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/io/uring_engine.h"

#include "io/engines.h"
#include "support/resident.h"
#include "support/temp_dir.h"

namespace engine_test {

using namespace headrace::io;
using namespace headrace::test;
using Clock = std::chrono::steady_clock;

namespace {

std::string content_of(std::size_t bytes, std::uint64_t seed) {
  return std::string(as_text(pattern_bytes(bytes, seed)));
}

Operation path_read(const DirFd& dir, const char* path, std::uint64_t offset, std::uint64_t length, CacheMode mode) {
  Operation operation = Operation::read_path(dir.get(), path, offset, length, buffer_for(offset, length));
  operation.cache_mode = mode;
  return operation;
}

constexpr CacheMode kModes[] = {CacheMode::kBuffered, CacheMode::kDirect};

}  // namespace

TEST_CASE("files of every awkward size are read whole, in every cache mode") {
  const TempDir folder;
  const DirFd dir(folder.path());
  for (const std::size_t bytes : {0, 1, 511, 512, 4095, 4096, 4097, 108'000, 1'000'003}) {
    const std::string name = "class/" + std::to_string(bytes);
    const std::string content = content_of(bytes, bytes);
    folder.write(name, content);
    for_each_engine([&](Engine& engine) {
      for (const CacheMode mode : kModes) {
        Tracked read(path_read(dir, name.c_str(), 0, bytes, mode));
        REQUIRE(run(engine, read) == bytes);
        CHECK(read.text() == content);
      }
    });
  }
}

TEST_CASE("what a thread does itself ends as it does in an engine") {
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("a", content_of(108'000, 1));
  for (const CacheMode mode : kModes) {
    Tracked whole(path_read(dir, "a", 0, 108'000, mode));
    run_here(whole.operation);
    REQUIRE(whole.result == 108'000);
    CHECK(whole.text() == content_of(108'000, 1));
    Tracked past_end(path_read(dir, "a", 107'000, 5'000, mode));
    run_here(past_end.operation);
    CHECK(past_end.result == 1'000);
    Tracked missing(path_read(dir, "b", 0, 5'000, mode));
    run_here(missing.operation);
    REQUIRE(missing.completions == 1);
    CHECK(missing.result->error().code == ErrorCode::kNotFound);
  }
}

TEST_CASE("misaligned ranges come back exactly, by path and by descriptor") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const std::string content = content_of(50'000, 7);
  const auto path = folder.write("f", content);
  const DirFd buffered(path, O_RDONLY);
  const DirFd direct(path, O_RDONLY | O_DIRECT);
  for_each_engine([&](Engine& engine) {
    for (const std::uint64_t offset : {0, 1, 4095, 4096, 4097, 49'999, 50'000, 60'000}) {
      for (const std::uint64_t length : {1, 4096, 4097, 30'000}) {
        CAPTURE(offset);
        CAPTURE(length);
        const std::string expected = offset < content.size() ? content.substr(offset, length) : "";
        for (const CacheMode mode : kModes) {
          Tracked by_path(path_read(dir, "f", offset, length, mode));
          REQUIRE(run(engine, by_path) == expected.size());
          CHECK(by_path.text() == expected);

          const int fd = mode == CacheMode::kDirect ? direct.get() : buffered.get();
          Tracked by_fd(Operation::read(fd, offset, length, buffer_for(offset, length)));
          by_fd.operation.cache_mode = mode;
          REQUIRE(run(engine, by_fd) == expected.size());
          CHECK(by_fd.text() == expected);
        }
      }
    }
  });
}

TEST_CASE("a missing file is reported and its neighbours are read") {
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("there", "content");
  for_each_engine([&](Engine& engine) {
    Tracked first(path_read(dir, "there", 0, 7, CacheMode::kBuffered));
    Tracked missing(path_read(dir, "missing", 0, 7, CacheMode::kBuffered));
    Tracked last(path_read(dir, "there", 0, 7, CacheMode::kBuffered));
    for (Tracked* tracked : {&first, &missing, &last}) engine.submit(tracked->operation);
    drain(engine);
    CHECK(first.text() == "content");
    CHECK(last.text() == "content");
    REQUIRE_FALSE(*missing.result);
    CHECK(missing.result->error().code == ErrorCode::kNotFound);
    CHECK(missing.result->error().message() == "read missing: No such file or directory");
  });
}

TEST_CASE("a read past the end of the file is short, and the file is closed") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const auto path = folder.write("short", "0123456789");
  const DirFd other(folder.write("other", "x"), O_RDWR);
  if (::fcntl(other.get(), F_SETLEASE, F_WRLCK) != 0) skip("no leases on this file system");
  for_each_engine([&](Engine& engine) {
    for (const CacheMode mode : kModes) {
      Tracked read(path_read(dir, "short", 0, 100, mode));
      REQUIRE(run(engine, read) == 10);
      CHECK(read.text() == "0123456789");
      // A write lease is given only while nobody else has the file open. The kernel may close a moment later.
      const DirFd file(path, O_RDWR);
      const auto deadline = Clock::now() + std::chrono::seconds(5);
      int refused = ::fcntl(file.get(), F_SETLEASE, F_WRLCK);
      while (refused != 0 && Clock::now() < deadline) {
        engine.wait(Clock::now() + std::chrono::milliseconds(1));
        refused = ::fcntl(file.get(), F_SETLEASE, F_WRLCK);
      }
      CHECK(refused == 0);
    }
  });
}

TEST_CASE("of a file that stays open the kernel reads what is asked for and nothing ahead") {
  constexpr std::size_t kFileBytes = std::size_t{4} << 20;
  constexpr std::size_t kPage = 4096;
  const TempDir folder;
  const DirFd dir(folder.path());
  const DirFd file(folder.write("pack", content_of(kFileBytes, 1)), O_RDONLY);
  const auto pages_of_a_read = [&](const std::function<void(Tracked&)>& run_it) {
    REQUIRE(::fdatasync(file.get()) == 0);
    REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
    Tracked read(path_read(dir, "pack", 0, kPage, CacheMode::kBuffered));  // at the start the kernel expects more
    read.operation.keep_open = true;
    run_it(read);
    REQUIRE(read.result == kPage);
    ::close(read.operation.kept_fd);
    void* const mapped = ::mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, file.get(), 0);
    REQUIRE(mapped != MAP_FAILED);
    const std::size_t resident = resident_bytes(static_cast<const std::byte*>(mapped), kFileBytes);
    ::munmap(mapped, kFileBytes);
    return resident / kPage;
  };
  for_each_engine([&](Engine& engine) { CHECK(pages_of_a_read([&](Tracked& read) { run(engine, read); }) == 1); });
  CHECK(pages_of_a_read([](Tracked& read) { run_here(read.operation); }) == 1);
}

TEST_CASE("a file of 3 GiB is read anywhere") {
  constexpr std::uint64_t kSize = 3ULL << 30;
  constexpr std::uint64_t kLength = 200'000;
  const TempDir folder;
  const auto path = folder.write("big", "");
  const DirFd file(path, O_RDWR);
  REQUIRE(::ftruncate(file.get(), kSize) == 0);
  const std::string mark = content_of(1000, 9);
  const std::uint64_t places[] = {0, (1ULL << 31) - 500, (1ULL << 31) + 4095, kSize - mark.size()};
  for (const std::uint64_t place : places) {
    REQUIRE(::pwrite(file.get(), mark.data(), mark.size(), static_cast<off_t>(place)) == ssize_t(mark.size()));
  }
  const DirFd dir(folder.path());
  for_each_engine([&](Engine& engine) {
    for (const std::uint64_t place : places) {
      for (const CacheMode mode : kModes) {
        Tracked read(path_read(dir, "big", place, kLength, mode));
        REQUIRE(run(engine, read) == std::min(kLength, kSize - place));
        CHECK(read.text().substr(0, mark.size()) == mark);
      }
    }
  });
}

TEST_CASE("a file that shrinks or grows is read as far as it goes and as far as was asked") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const std::string content = content_of(100'000, 2);
  const auto path = folder.write("f", content);
  for_each_engine([&](Engine& engine) {
    for (const CacheMode mode : kModes) {
      REQUIRE(::truncate(path.c_str(), 30'000) == 0);
      Tracked shrunk(path_read(dir, "f", 0, content.size(), mode));
      REQUIRE(run(engine, shrunk) == 30'000);
      CHECK(shrunk.text() == content.substr(0, 30'000));
      folder.write("f", content + "more");
      Tracked grown(path_read(dir, "f", 0, content.size(), mode));
      REQUIRE(run(engine, grown) == content.size());
      CHECK(grown.text() == content);
    }
  });
}

TEST_CASE("a file that shrinks and grows while it is read never gives other bytes than it had") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const std::string content(100'000, 'x');
  const auto path = folder.write("f", content);
  for_each_engine([&](Engine& engine) {
    std::atomic<bool> stop = false;
    std::thread writer([&] {
      for (off_t size = 0; !stop; size = (size + 7777) % 100'000) {
        if (::truncate(path.c_str(), size) != 0) break;
        std::this_thread::yield();
      }
    });
    for (int i = 0; i < 60; ++i) {
      Tracked read(path_read(dir, "f", 0, content.size(), kModes[i % 2]));
      const auto bytes = run(engine, read);
      REQUIRE(bytes);
      CHECK(*bytes <= content.size());
      CHECK(read.text().find_first_not_of(std::string("x\0", 2)) == std::string::npos);
    }
    stop = true;
    writer.join();
  });
}

TEST_CASE("a path never leaves its directory") {
  const TempDir folder;
  const TempDir outside;
  outside.write("secret", "secret");
  folder.write("in/f", "inside");
  symlink("in/f", (folder.path() / "link").c_str());
  symlink("in", (folder.path() / "dirlink").c_str());
  const DirFd dir(folder.path() / "in");
  const DirFd root(folder.path());
  const std::string absolute = (outside.path() / "secret").string();
  for_each_engine([&](Engine& engine) {
    for (const char* path : {"../in/f", absolute.c_str()}) {
      Tracked read(path_read(dir, path, 0, 6, CacheMode::kBuffered));
      CHECK_FALSE(run(engine, read));
    }
    for (const char* path : {"link", "dirlink/f"}) {
      Tracked read(path_read(root, path, 0, 6, CacheMode::kBuffered));
      CHECK_FALSE(run(engine, read));
    }
  });
}

TEST_CASE("a path that the kernel rejects before it starts is an error of that operation alone") {
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("f", "content");
  const std::string too_long(5000, 'x');
  for_each_engine([&](Engine& engine) {
    Tracked bad(path_read(dir, too_long.c_str(), 0, 7, CacheMode::kBuffered));
    Tracked empty(path_read(dir, "", 0, 7, CacheMode::kBuffered));
    Tracked good(path_read(dir, "f", 0, 7, CacheMode::kBuffered));
    for (Tracked* tracked : {&bad, &empty, &good}) engine.submit(tracked->operation);
    drain(engine);
    CHECK(bad.result->error().os_errno == ENAMETOOLONG);
    CHECK(empty.result->error().code == ErrorCode::kNotFound);
    CHECK(good.text() == "content");
  });
}

TEST_CASE("more operations than the queue holds all complete once") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const std::string content = content_of(9000, 3);
  folder.write("f", content);
  for_each_engine({.queue_depth_max = 4}, [&](Engine& engine) {
    std::vector<std::unique_ptr<Tracked>> reads;
    for (int i = 0; i < 300; ++i) {
      reads.push_back(std::make_unique<Tracked>(path_read(dir, "f", 0, 9000, CacheMode::kBuffered)));
      engine.submit(reads.back()->operation);
    }
    drain(engine);
    for (auto& read : reads) {
      CHECK(read->completions == 1);
      CHECK(read->text() == content);
    }
  });
}

TEST_CASE("the next read is on its way before a completion runs") {
  need_uring();
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("f", content_of(100'000, 1));
  auto engine = open_uring_engine({.queue_depth_max = 1}, {});
  REQUIRE(engine);
  struct Seen {
    Operation next;
    Operation::Internal::Place place = Operation::Internal::Place::kIdle;
  } seen{path_read(dir, "f", 0, 100'000, CacheMode::kBuffered)};
  seen.next.on_complete = [](Operation&, Result<std::uint64_t>) {};
  Operation first = path_read(dir, "f", 0, 100'000, CacheMode::kBuffered);
  first.wanted = seen.next.wanted = &kNobodyWaits;  // else it would find a place beside the first one
  first.context = &seen;
  first.on_complete = [](Operation& self, Result<std::uint64_t>) {
    auto& mine = *static_cast<Seen*>(self.context);
    mine.place = mine.next.internal.place;
  };
  (*engine)->submit(first);
  (*engine)->submit(seen.next);
  drain(**engine);
  CHECK(seen.place == Operation::Internal::Place::kStarted);
}

TEST_CASE("a read that somebody waits for starts before those ahead that came before it, and beyond the depth") {
  need_uring();
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("f", content_of(100'000, 1));
  for (const bool is_hurried : {false, true}) {
    auto engine = open_uring_engine({.queue_depth_max = 1}, {});
    REQUIRE(engine);
    std::atomic<bool> wanted = false;
    struct Seen {
      Operation late;
      Operation::Internal::Place place = Operation::Internal::Place::kIdle;
    } seen{path_read(dir, "f", 0, 100'000, CacheMode::kBuffered)};
    Operation first = path_read(dir, "f", 0, 100'000, CacheMode::kBuffered);
    Operation second = path_read(dir, "f", 0, 100'000, CacheMode::kBuffered);
    first.wanted = second.wanted = &kNobodyWaits;
    if (is_hurried) seen.late.wanted = &wanted;
    second.on_complete = seen.late.on_complete = [](Operation&, Result<std::uint64_t>) {};
    first.context = &seen;
    first.on_complete = [](Operation& self, Result<std::uint64_t>) {
      auto& mine = *static_cast<Seen*>(self.context);
      mine.place = mine.late.internal.place;
    };
    for (Operation* operation : {&first, &second, &seen.late}) (*engine)->submit(*operation);
    CHECK((*engine)->waiting() == 3);
    wanted = true;
    (*engine)->hurry();
    drain(**engine);
    CHECK(seen.place != Operation::Internal::Place::kQueued);
    CHECK((*engine)->waiting() == 0);
  }
}

TEST_CASE("what is written can be read back") {
  const TempDir folder;
  const std::string content = content_of(3 * kBufferAlignment, 11);
  for_each_engine([&](Engine& engine) {
    for (const int flags : {0, O_DIRECT}) {
      const DirFd file(folder.path() / "segment", O_RDWR | O_CREAT | O_TRUNC | flags);
      Buffer buffer = buffer_for(0, content.size());
      std::copy(content.begin(), content.end(), reinterpret_cast<char*>(buffer.data()));
      buffer.set_size(content.size());
      Tracked write(Operation::write(file.get(), 4096, std::move(buffer)));
      REQUIRE(run(engine, write) == content.size());
      Tracked read(Operation::read(file.get(), 4096, content.size(), buffer_for(0, content.size())));
      read.operation.cache_mode = flags != 0 ? CacheMode::kDirect : CacheMode::kBuffered;
      REQUIRE(run(engine, read) == content.size());
      CHECK(read.text() == content);
    }
  });
}

TEST_CASE("a full device is an error value") {
  const DirFd full("/dev/full", O_WRONLY);
  for_each_engine([&](Engine& engine) {
    Buffer buffer = buffer_for(0, 4096);
    buffer.set_size(4096);
    Tracked write(Operation::write(full.get(), 0, std::move(buffer)));
    REQUIRE_FALSE(run(engine, write));
    CHECK(write.result->error().code == ErrorCode::kNoSpace);
  });
}

TEST_CASE("registered files are read and written like others, and more than fit simply are not registered") {
  const TempDir folder;
  const std::string content = content_of(5000, 5);
  const auto path = folder.write("pack", content);
  for_each_engine([&](Engine& engine) {
    std::vector<std::unique_ptr<DirFd>> files;
    for (int i = 0; i < 100; ++i) {
      files.push_back(std::make_unique<DirFd>(path, O_RDONLY));
      engine.register_file(files.back()->get());
    }
    for (const auto& file : files) {
      Tracked read(Operation::read(file->get(), 1000, 4000, buffer_for(1000, 4000)));
      REQUIRE(run(engine, read) == 4000);
      CHECK(read.text() == content.substr(1000));
    }
    for (const auto& file : files) engine.unregister_file(file->get());
    Tracked read(Operation::read(files[0]->get(), 0, 10, buffer_for(0, 10)));
    CHECK(run(engine, read) == 10);
  });
}

TEST_CASE("a FIFO or a folder in the place of a file does not stop the engine") {
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("f", "content");
  REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  for_each_engine([&](Engine& engine) {
    Tracked fifo(path_read(dir, "fifo", 0, 7, CacheMode::kBuffered));
    static_cast<void>(run(engine, fifo));  // nothing to read, or no reading at a place
    {
      const DirFd writer(folder.path() / "fifo", O_RDWR);  // nothing comes, but might
      const FileAttributes expected = *attributes_of(DirFd(folder.path() / "f", O_RDONLY).get());
      Tracked waiting(path_read(dir, "fifo", 0, 7, CacheMode::kBuffered));
      waiting.operation.expected = &expected;
      REQUIRE_FALSE(run(engine, waiting));
      CHECK(waiting.result->error().code == ErrorCode::kStale);
    }
    Tracked directory(path_read(dir, ".", 0, 7, CacheMode::kBuffered));
    REQUIRE_FALSE(run(engine, directory));
    CHECK(directory.result->error().os_errno == EISDIR);
    Tracked read(path_read(dir, "f", 0, 7, CacheMode::kBuffered));
    CHECK(run(engine, read) == 7);
  });
}

TEST_CASE("a read that never ends ends with its engine, as cancelled") {
  need_uring();  // a thread in read(2) on a pipe cannot be called back
  int pipe_fds[2];
  REQUIRE(::pipe2(pipe_fds, O_CLOEXEC) == 0);
  for (const EngineCase& engine_case : engine_cases()) {
    if (engine_case.name == "pread") continue;
    CAPTURE(engine_case.name);
    auto engine = engine_case.open({});
    REQUIRE(engine);
    Tracked endless(Operation::read(pipe_fds[0], 0, 10, buffer_for(0, 10)));
    (*engine)->submit(endless.operation);
    (*engine)->wait(Clock::now() + std::chrono::milliseconds(5));
    CHECK(endless.completions == 0);
    engine->reset();
    REQUIRE(endless.completions == 1);
    CHECK(endless.result->error().code == ErrorCode::kCancelled);
  }
  ::close(pipe_fds[0]);
  ::close(pipe_fds[1]);
}

TEST_CASE("destruction with reads in flight completes every one of them") {
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("f", content_of(200'000, 1));
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    std::vector<std::unique_ptr<Tracked>> reads;
    {
      auto engine = engine_case.open({.queue_depth_max = 8});
      for (int i = 0; i < 40; ++i) {
        const CacheMode mode = kModes[i % 2];
        reads.push_back(std::make_unique<Tracked>(path_read(dir, "f", 0, 200'000, mode)));
        (*engine)->submit(reads.back()->operation);
      }
      (*engine)->wait(Clock::now());
    }
    for (auto& read : reads) CHECK(read->completions == 1);
  }
}

TEST_CASE("what a completion submits while the engine goes down is cancelled") {
  const TempDir folder;
  const DirFd dir(folder.path());
  folder.write("f", "content");
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    auto engine = engine_case.open({});
    Tracked second(path_read(dir, "f", 0, 7, CacheMode::kBuffered));
    std::pair<Engine*, Tracked*> next{engine->get(), &second};
    Operation first = path_read(dir, "f", 0, 7, CacheMode::kBuffered);
    first.context = &next;
    first.on_complete = [](Operation& self, Result<std::uint64_t>) {
      auto& [engine_in_use, tracked] = *static_cast<std::pair<Engine*, Tracked*>*>(self.context);
      engine_in_use->submit(tracked->operation);
    };
    (*engine)->submit(first);
    engine->reset();
    REQUIRE(second.completions == 1);
    CHECK(second.result->error().code == ErrorCode::kCancelled);
  }
}

TEST_CASE("wake ends a wait, also when it comes first") {
  for_each_engine([&](Engine& engine) {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    for (int i = 0; i < 3; ++i) {
      engine.wake();
      engine.wait(deadline);
    }
    CHECK(Clock::now() < deadline);
  });
}

TEST_CASE("a wait without work ends at its deadline") {
  for_each_engine([&](Engine& engine) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(3);
    engine.wait(deadline);
    CHECK(Clock::now() >= deadline);
  });
}

}  // namespace engine_test
