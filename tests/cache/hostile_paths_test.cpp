// SPDX-License-Identifier: Apache-2.0
// Whoever owns the data set may rename its folders while we read as root: what lies outside is never shown or touched.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "headrace/cache/store.h"

#include "support/temp_dir.h"

namespace hostile_paths_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::Catalog;
using headrace::cache::EntryId;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::io::EngineOptions;
using headrace::io::Status;
using headrace::test::skip;
using headrace::test::TempDir;
using std::chrono::steady_clock;

constexpr int kFiles = 8;
constexpr std::size_t kFileBytes = 5000;
// Long enough for the scheduler to let both threads run many times, also on one busy core.
constexpr std::chrono::milliseconds kRaceTime{400};

// Exchanges two names as fast as it can until it ends, an even number of times: all is as it was then.
class Swapper {
 public:
  Swapper(fs::path one, fs::path other) : one_(std::move(one)), other_(std::move(other)) {
    if (::renameat2(AT_FDCWD, one_.c_str(), AT_FDCWD, other_.c_str(), RENAME_EXCHANGE) != 0) {
      skip("this file system cannot exchange names");
    }
    thread_ = std::thread([this] { run(); });
  }
  ~Swapper() {
    ended_ = true;
    thread_.join();
  }
  Swapper(const Swapper&) = delete;
  Swapper& operator=(const Swapper&) = delete;

 private:
  void run() {
    bool exchanged = true;
    while (!ended_ || exchanged) {
      if (::renameat2(AT_FDCWD, one_.c_str(), AT_FDCWD, other_.c_str(), RENAME_EXCHANGE) == 0) exchanged = !exchanged;
      std::this_thread::yield();
    }
  }

  const fs::path one_;
  const fs::path other_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

// source/class holds files; elsewhere/ has files of the same names and sizes, and one more; `link` leads there.
struct Fixture {
  Fixture() {
    for (int i = 0; i < kFiles; ++i) {
      folder.write("source/class/" + std::to_string(i) + ".jpg", std::string(kFileBytes, 'i'));
      folder.write("elsewhere/" + std::to_string(i) + ".jpg", std::string(kFileBytes, 'o'));
    }
    folder.write("elsewhere/secret.jpg", std::string(kFileBytes, 'o'));
    fs::create_directory_symlink(folder.path() / "elsewhere", link);
  }

  // Name and content of everything in elsewhere/.
  [[nodiscard]] std::string outside() const {
    std::ostringstream all;
    for (const auto& entry : fs::recursive_directory_iterator(elsewhere)) {
      all << entry.path() << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    }
    return all.str();
  }

  TempDir folder;
  fs::path source = folder.path() / "source";
  fs::path elsewhere = folder.path() / "elsewhere";
  fs::path link = folder.path() / "link";
};

std::unique_ptr<Store> open(const StoreOptions& options) {
  auto store = Store::open(options);
  REQUIRE_MESSAGE(store.has_value(), store.error().message());
  return std::move(*store);
}

Status warm(Store& store, EntryId entry) {
  std::promise<Status> promise;
  store.warm(entry, [&](Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

}  // namespace

TEST_CASE("a scan does not follow a folder that becomes a symlink to the outside") {
  const Fixture fixture;
  const Swapper swapper(fixture.source / "class", fixture.link);
  for (const auto end = steady_clock::now() + kRaceTime; steady_clock::now() < end;) {
    const auto catalog = Catalog::scan(fixture.source, {});
    if (!catalog) continue;  // a folder that is gone by the time it is opened
    for (SampleIndex i = 0; i < catalog->sample_count(); ++i) {
      REQUIRE(catalog->path(catalog->sample_entry(i)).find("secret") == std::string::npos);
    }
  }
}

TEST_CASE("no read follows a folder that becomes a symlink to the outside") {
  const Fixture fixture;
  for (const EngineOptions::Kind kind : {EngineOptions::Kind::kAutomatic, EngineOptions::Kind::kPread}) {
    auto store = open({.source = fixture.source, .engine = {.kind = kind}});
    REQUIRE(store->catalog().sample_count() == kFiles);
    const Swapper swapper(fixture.source / "class", fixture.link);
    const auto end = steady_clock::now() + kRaceTime;
    for (SampleIndex i = 0; steady_clock::now() < end; ++i) {
      const auto view = store->read(store->catalog().sample_entry(i % kFiles));
      if (view) REQUIRE(view->bytes()[0] == std::byte{'i'});
    }
  }
}

TEST_CASE("a tier whose folder is exchanged while it is written to stays where it was opened") {
  const Fixture fixture;
  const fs::path tier = fixture.folder.path() / "tier";
  const std::string outside_before = fixture.outside();
  for (int round = 0; round < 5; ++round) {
    auto store = open({.source = fixture.source,
                       .tiers = {{.kind = TierKind::kSsd, .path = tier, .budget_bytes = std::uint64_t{16} << 20}}});
    struct stat status {};
    REQUIRE(::stat(tier.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    const Swapper swapper(tier, fixture.link);
    for (SampleIndex i = 0; i < kFiles; ++i) CHECK(warm(*store, store->catalog().sample_entry(i)).has_value());
    CHECK(store->flush().has_value());
    store.reset();
    // What the owner of the source changes meanwhile is written again the next time.
    fixture.folder.write("source/class/0.jpg", std::string(kFileBytes + static_cast<std::size_t>(round), 'i'));
  }
  CHECK(fixture.outside() == outside_before);
}

}  // namespace hostile_paths_test
