// SPDX-License-Identifier: Apache-2.0
// Files that change before and while they are read, by every way to read: what is reported as success is the version
// that was expected, whole.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/io/engine.h"
#include "headrace/io/file_attributes.h"
#include "headrace/io/file_system.h"
#include "headrace/io/page_cache_reader.h"
#include "headrace/io/unique_fd.h"

#include "io/engines.h"
#include "support/fault_engine.h"
#include "support/temp_dir.h"

namespace version_test {

using namespace headrace::io;
using namespace headrace::test;
namespace fs = std::filesystem;

namespace {

// Two changes that are further apart have different times, also without fine-grained ones (a tick is 10 ms at most).
constexpr auto kTick = std::chrono::milliseconds(12);
constexpr std::size_t kBytes = 200'000;

struct Version {
  FileAttributes attributes;
  std::string content;
};

std::string read_file(const fs::path& path) {
  std::string content(fs::file_size(path), '\0');
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::pread(file.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
  return content;
}

Version version_of(const fs::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const Result<FileAttributes> attributes = attributes_of(file.get());
  REQUIRE(attributes);
  return {*attributes, read_file(path)};
}

void set_mtime(const fs::path& path, std::int64_t mtime_ns) {
  const timespec times[2] = {{0, UTIME_OMIT}, {mtime_ns / 1'000'000'000, mtime_ns % 1'000'000'000}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

// In pieces from the end: a writer that runs behind a reader never overtakes it.
void write_over(const fs::path& path, char letter) {
  constexpr std::size_t kPieces = 16;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const std::size_t bytes = fs::file_size(path);
  const std::string piece(bytes / kPieces + 1, letter);
  for (std::size_t end = bytes; end > 0;) {
    const std::size_t count = std::min(end, piece.size());
    end -= count;
    REQUIRE(::pwrite(file.get(), piece.data(), count, static_cast<off_t>(end)) == static_cast<ssize_t>(count));
  }
}

// What may happen to a file in a source. `letter` is the content from then on, where that changes.
struct Change {
  const char* name;
  void (*make)(const fs::path& path, char letter);
};

const Change kChanges[] = {
    {"replaced by rename",
     [](const fs::path& path, char letter) {
       const fs::path other = path.string() + ".new";
       const UniqueFd file(::open(other.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
       const std::string content(fs::file_size(path), letter);
       REQUIRE(::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
       fs::rename(other, path);
     }},
    {"grown", [](const fs::path& path, char) { fs::resize_file(path, fs::file_size(path) + 1000); }},
    {"shrunk", [](const fs::path& path, char) { fs::resize_file(path, fs::file_size(path) - 1000); }},
    {"rewritten in place", write_over},
    {"rewritten in place, with its old size and modification time",
     [](const fs::path& path, char letter) {
       const std::int64_t mtime_ns = version_of(path).attributes.mtime_ns;
       write_over(path, letter);
       set_mtime(path, mtime_ns);
     }},
    {"touched", [](const fs::path& path, char letter) { set_mtime(path, 1'000'000'000LL * letter); }},
};

// A way to read: every engine, the same inside a fault engine, no engine.
struct Way {
  std::string name;
  std::function<void(Tracked&)> read;
};

void for_each_way(const std::function<void(const Way&)>& body) {
  for (const EngineCase& engine_case : engine_cases()) {
    const std::size_t descriptors_before = open_descriptor_count();
    {
      auto engine = std::move(*engine_case.open({}));
      body({engine_case.name, [&](Tracked& tracked) { static_cast<void>(run(*engine, tracked)); }});
      auto faulty = open_fault_engine(std::move(engine), {.delay_one_in = 2, .reorder = true});
      body({"fault engine around " + engine_case.name,
            [&](Tracked& tracked) { static_cast<void>(run(*faulty, tracked)); }});
    }
    CHECK(open_descriptor_count() == descriptors_before);
  }
  body({"without an engine", [](Tracked& tracked) { run_here(tracked.operation); }});
}

// As a reader of the source does it: with room for what the file was.
Operation path_read(int dir_fd, const Version& expected, CacheMode mode, bool opens_wait) {
  const std::size_t bytes = expected.content.size();
  Operation operation = Operation::read_path(dir_fd, "f", 0, bytes, buffer_for(0, bytes));
  operation.cache_mode = mode;
  operation.opens_wait = opens_wait;
  operation.expected = &expected.attributes;
  return operation;
}

// For 400 ms, and until a read was good: on a busy machine the file changes within most of them.
bool goes_on(std::chrono::steady_clock::time_point begun, unsigned good) {
  const auto time = std::chrono::steady_clock::now() - begun;
  return time < std::chrono::milliseconds(good > 0 ? 400 : 20'000);
}

}  // namespace

TEST_CASE("a file that is as expected is read, by every way") {
  const TempDir folder;
  const auto path = folder.write("f", std::string(kBytes, 'a'));
  const Version version = version_of(path);
  const DirFd dir(folder.path());
  const DirFd file(path, O_RDONLY);
  for_each_way([&](const Way& way) {
    CAPTURE(way.name);
    for (const CacheMode mode : {CacheMode::kBuffered, CacheMode::kDirect}) {
      for (const bool opens_wait : {false, true}) {
        Tracked read(path_read(dir.get(), version, mode, opens_wait));
        way.read(read);
        REQUIRE(*read.result == kBytes);
        CHECK(read.text() == version.content);
      }
    }
    Tracked by_fd(Operation::read(file.get(), 1000, 5000, buffer_for(1000, 5000)));
    by_fd.operation.expected = &version.attributes;
    way.read(by_fd);
    REQUIRE(*by_fd.result == 5000);
    CHECK(by_fd.text() == version.content.substr(1000, 5000));
  });
}

TEST_CASE("a file that changed before it was read is stale, by every way, and what it is now is told") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const auto path = folder.path() / "f";
  for (const Change& change : kChanges) {
    CAPTURE(change.name);
    folder.write("f", std::string(kBytes, 'a'));
    const Version before = version_of(path);
    const DirFd file(path, O_RDONLY);  // opened before the change
    std::this_thread::sleep_for(kTick);
    change.make(path, 'b');
    const Version after = version_of(path);
    const FileAttributes after_of_opened = *attributes_of(file.get());
    PageCacheReader page_cache(dir.get(), describe_file_system(dir.get()).in_memory);
    std::vector<std::byte> bytes(1000);
    CHECK_FALSE(page_cache.try_read("f", bytes, &before.attributes));
    for_each_way([&](const Way& way) {
      CAPTURE(way.name);
      for (const bool opens_wait : {false, true}) {
        Tracked read(path_read(dir.get(), before, CacheMode::kBuffered, opens_wait));
        way.read(read);
        REQUIRE_FALSE(*read.result);
        CHECK(read.result->error().code == ErrorCode::kStale);
        CHECK(read.result->error().os_errno == 0);
        CHECK(read.result->error().message() == "read f: changed since it was catalogued");
        const bool found = read.operation.found == after.attributes;
        CHECK(found);
      }
      Tracked by_fd(Operation::read(file.get(), 0, 1000, buffer_for(0, 1000)));
      by_fd.operation.expected = &before.attributes;
      way.read(by_fd);
      REQUIRE_FALSE(*by_fd.result);
      CHECK(by_fd.result->error().code == ErrorCode::kStale);
      const bool found = by_fd.operation.found == after_of_opened;
      CHECK(found);
    });
  }
}

namespace {

// Changes one file all the time, and swaps it with another and back, as in `mv f bak; mv new f; ...; mv bak f`.
class Changer {
 public:
  Changer(fs::path path, std::uint64_t seed) : path_(std::move(path)), random_(seed) {
    publish();
    thread_ = std::thread([this] {
      while (!stop_) change_once();
    });
  }
  ~Changer() {
    stop_ = true;
    thread_.join();
  }
  Changer(const Changer&) = delete;
  Changer& operator=(const Changer&) = delete;

  // A version that was there lately.
  Version any() {
    const std::lock_guard lock(mutex_);
    return versions_.size() > 1 && asked_++ % 4 == 0 ? versions_[versions_.size() - 2] : versions_.back();
  }

 private:
  void change_once() {
    const std::size_t number = random_() % (std::size(kChanges) + 1);
    std::this_thread::sleep_for(kTick);
    if (number < std::size(kChanges)) {
      letter_ = letter_ == 'z' ? 'a' : static_cast<char>(letter_ + 1);
      kChanges[number].make(path_, letter_);
    } else {
      const fs::path kept = path_.string() + ".kept";
      fs::rename(path_, kept);
      fs::copy_file(kept, path_);
      write_over(path_, '!');
      fs::rename(kept, path_);
    }
    publish();
  }

  void publish() {
    Version version = version_of(path_);
    const std::lock_guard lock(mutex_);
    versions_.push_back(std::move(version));
    if (versions_.size() > 4) versions_.erase(versions_.begin());
  }

  const fs::path path_;
  std::mt19937_64 random_;
  char letter_ = 'a';
  std::mutex mutex_;
  std::vector<Version> versions_;
  unsigned asked_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a file that changes while it is read is read as it was expected, or not at all, by every way") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  for_each_way([&](const Way& way) {
    CAPTURE(way.name);
    Changer changer(folder.write("f", std::string(kBytes, 'a')), seed);
    unsigned good = 0;
    const auto begun = std::chrono::steady_clock::now();
    for (unsigned i = 0; goes_on(begun, good); ++i) {
      const Version expected = changer.any();
      Tracked read(path_read(dir.get(), expected, static_cast<CacheMode>(i % 2), i % 3 == 0));
      way.read(read);
      const auto& result = *read.result;
      if (!result) {
        const bool told = result.error().code == ErrorCode::kStale || result.error().code == ErrorCode::kNotFound;
        CHECK(told);
      } else {
        ++good;
        REQUIRE(*result == expected.content.size());
        const bool same = read.text() == expected.content;
        REQUIRE(same);
      }
    }
    CHECK(good > 0);
  });
}

namespace {

// Side by side, of one open file.
std::vector<std::unique_ptr<Tracked>> read_together(Engine& engine, int file,
                                                    const std::vector<const Version*>& expected) {
  constexpr std::uint64_t kLength = 512;
  std::vector<std::unique_ptr<Tracked>> reads;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::uint64_t offset = i * kLength % (kBytes - kLength);
    reads.push_back(std::make_unique<Tracked>(Operation::read(file, offset, kLength, buffer_for(offset, kLength))));
    reads.back()->operation.opens_wait = true;  // so that the file's server is asked
    reads.back()->operation.expected = &expected[i]->attributes;
  }
  for (const auto& read : reads) engine.submit(read->operation);
  while (engine.in_flight() > 0) engine.wait(std::chrono::steady_clock::now() + std::chrono::seconds(1));
  return reads;
}

}  // namespace

TEST_CASE("of reads of one open file that end together each is compared with what it expects") {
  const TempDir folder;
  const auto path = folder.write("f", std::string(kBytes, 'a'));
  const Version before = version_of(path);
  std::this_thread::sleep_for(kTick);
  write_over(path, 'b');
  const Version now = version_of(path);
  const DirFd file(path, O_RDONLY);
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    auto engine = std::move(*engine_case.open({}));
    std::vector<const Version*> expected;
    for (int i = 0; i < 64; ++i) expected.push_back(i % 3 == 0 ? &before : &now);
    const auto reads = read_together(*engine, file.get(), expected);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      CAPTURE(i);
      REQUIRE(reads[i]->result.has_value());
      CHECK(reads[i]->result->has_value() == (expected[i] == &now));
      if (*reads[i]->result) {
        CHECK(reads[i]->text() == std::string(512, 'b'));
      } else {
        CHECK(reads[i]->result->error().code == ErrorCode::kStale);
      }
    }
  }
}

TEST_CASE("of reads of one open file that end together while it changes each gives what it expects, or nothing") {
  const TempDir folder;
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    auto engine = std::move(*engine_case.open({}));
    const auto path = folder.write("f", std::string(kBytes, 'a'));
    Changer changer(path, 7);
    unsigned good = 0;
    const auto begun = std::chrono::steady_clock::now();
    while (goes_on(begun, good)) {
      const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!file.valid()) continue;  // it is being swapped
      const Version first = changer.any();
      const Version second = changer.any();
      std::vector<const Version*> expected;
      for (int i = 0; i < 32; ++i) expected.push_back(i % 2 == 0 ? &first : &second);
      const auto reads = read_together(*engine, file.get(), expected);
      for (std::size_t i = 0; i < reads.size(); ++i) {
        if (!*reads[i]->result) continue;
        ++good;
        const std::uint64_t offset = reads[i]->operation.offset_bytes;
        const bool same = reads[i]->text() == expected[i]->content.substr(offset, 512);
        REQUIRE(same);
      }
    }
    CHECK(good > 0);
  }
}

TEST_CASE("a file that changes while it is copied from the page cache is read as it was expected, or not at all") {
  const TempDir folder;
  const DirFd dir(folder.path());
  const auto path = folder.write("f", std::string(8 << 20, 'a'));  // so that a copy takes milliseconds
  PageCacheReader page_cache(dir.get(), describe_file_system(dir.get()).in_memory);
  std::vector<std::byte> bytes(8 << 20);
  for (int i = 0; i < 30; ++i) {
    const Version expected = version_of(path);
    std::this_thread::sleep_for(kTick);
    std::atomic<bool> ready = false;
    std::thread writer([&] {
      ready = true;
      std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
      write_over(path, static_cast<char>('b' + i % 20));
    });
    while (!ready) std::this_thread::yield();
    if (page_cache.try_read("f", bytes, &expected.attributes)) {
      const bool same = as_text(bytes) == expected.content;
      CHECK(same);
    }
    writer.join();
  }
}

}  // namespace version_test
