// SPDX-License-Identifier: Apache-2.0
// Devices and file systems that fail: the store goes on serving, says what happened, and bounds what it tries.
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/disk/tier_state.h"
#include "headrace/cache/store.h"
#include "headrace/io/engine.h"
#include "headrace/io/unique_fd.h"

#include "support/fault_engine.h"
#include "support/temp_dir.h"

namespace store_fault_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::EntryId;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::TierStats;
using headrace::io::Engine;
using headrace::io::open_engine;
using headrace::io::Result;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::FaultOptions;
using headrace::test::open_fault_engine;
using headrace::test::pattern_bytes;
using headrace::test::skip;
using headrace::test::TempDir;

constexpr std::size_t kFiles = 80;
constexpr std::uint64_t kMiB = 1 << 20;

auto faulty(const FaultOptions& faults) {
  return [faults]() -> Result<std::unique_ptr<Engine>> {
    auto engine = open_engine({});
    if (!engine) return engine;
    return std::unique_ptr<Engine>(open_fault_engine(std::move(*engine), faults));
  };
}

struct Fixture {
  Fixture() {
    for (std::size_t i = 0; i < kFiles; ++i) {
      contents.emplace_back(as_text(pattern_bytes(60'000 + i * 997, i)));
      source.write("class/" + std::to_string(i) + ".jpg", contents.back());
    }
    options.source = source.path();
    options.tiers = {{.kind = TierKind::kSsd, .path = scratch.path() / "tier", .budget_bytes = 64 * kMiB}};
  }
  [[nodiscard]] std::unique_ptr<Store> open() const {
    auto store = Store::open(options);
    REQUIRE_MESSAGE(store.has_value(), store.error().message());
    return std::move(*store);
  }
  // How many reads worked; each of these must be right.
  std::size_t read_all(Store& store) const {
    std::size_t good = 0;
    for (SampleIndex i = 0; i < kFiles; ++i) {
      const EntryId entry = store.catalog().sample_entry(i);
      const auto view = store.read(entry);
      if (!view) {
        CHECK(view.error().os_errno == EIO);
        continue;
      }
      const auto* text = reinterpret_cast<const char*>(view->bytes().data());
      const std::size_t file = std::stoul(fs::path(store.catalog().path(entry)).stem());
      REQUIRE(std::string_view(text, view->bytes().size()) == contents[file]);
      ++good;
    }
    return good;
  }
  static std::size_t warm_all(Store& store) {
    std::size_t warmed = 0;
    for (SampleIndex i = 0; i < kFiles; ++i) {
      std::promise<Status> promise;
      store.warm(store.catalog().sample_entry(i), [&](Status status) { promise.set_value(std::move(status)); });
      warmed += promise.get_future().get() ? 1 : 0;
    }
    return warmed;
  }
  static TierStats tier(const Store& store) { return store.stats().tiers[1]; }

  TempDir source;
  TempDir scratch;
  std::vector<std::string> contents;
  StoreOptions options;
};

// A small file system of its own for the tier. Ownership: unmounts itself.
class SmallFileSystem {
 public:
  SmallFileSystem(fs::path path, const char* options) : path_(std::move(path)) {
    fs::create_directory(path_);
    if (::mount("headrace-test", path_.c_str(), "tmpfs", 0, options) != 0) skip("needs the right to mount a tmpfs");
  }
  ~SmallFileSystem() { ::umount2(path_.c_str(), MNT_DETACH); }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  void resize(const char* options) const {
    REQUIRE(::mount("headrace-test", path_.c_str(), "tmpfs", MS_REMOUNT, options) == 0);
  }
  // The kernel closes the files of an io_uring a moment after the ring is gone; until then the mount is busy.
  void make_read_only() const {
    for (int attempt = 0; attempt < 200; ++attempt) {
      if (::mount("headrace-test", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0) return;
      REQUIRE(errno == EBUSY);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL("the mount stays busy");
  }

 private:
  fs::path path_;
};

TEST_CASE("errors of the source that pass are not seen by readers") {
  Fixture fixture;
  fixture.options.make_source_engine = faulty({.seed = 5, .error_one_in = 4});
  const auto store = fixture.open();
  CHECK(fixture.read_all(*store) >= kFiles - 6);  // three attempts: one in 64 fails
}

TEST_CASE("a source that fails for good gives its errno after bounded attempts") {
  Fixture fixture;
  fixture.options.tiers.clear();
  fixture.options.make_source_engine = faulty({.after_operations = 10, .error_one_in = 1});
  const auto store = fixture.open();
  std::vector<std::future<int>> results;
  std::vector<std::promise<int>> promises(kFiles);
  for (SampleIndex i = 0; i < kFiles; ++i) {
    results.push_back(promises[i].get_future());
    store->read_async(store->catalog().sample_entry(i),
                      [&promises, i](const auto& view) { promises[i].set_value(view ? 0 : view.error().os_errno); });
  }
  std::size_t failed = 0;
  for (auto& result : results) failed += result.get() == EIO ? 1 : 0;
  CHECK(failed == kFiles - 10);
  const TierStats source = store->stats().tiers.back();
  CHECK(source.errors == failed);
  CHECK(source.state.starts_with("failing: "));
  CHECK(store->stats().failures == failed);
}

TEST_CASE("a tier that fails every read is dropped and the source serves") {
  Fixture fixture;
  REQUIRE(Fixture::warm_all(*fixture.open()) == kFiles);
  fixture.options.make_tier_engine = faulty({.read_error_one_in = 1});
  const auto store = fixture.open();
  CHECK(fixture.read_all(*store) == kFiles);
  CHECK(Fixture::tier(*store).state.starts_with("dropped: "));
  CHECK(Fixture::tier(*store).errors == 16);
}

TEST_CASE("a record that cannot be read is fetched and written anew") {
  Fixture fixture;
  REQUIRE(Fixture::warm_all(*fixture.open()) == kFiles);
  fixture.options.make_tier_engine = faulty({.seed = 4, .read_error_one_in = 8});
  const auto store = fixture.open();
  CHECK(fixture.read_all(*store) == kFiles);
  CHECK(store->flush());
  CHECK(Fixture::tier(*store).errors > 0);
  CHECK(Fixture::tier(*store).writes == Fixture::tier(*store).errors);
  for (SampleIndex i = 0; i < kFiles; ++i) CHECK(store->is_on_disk(store->catalog().sample_entry(i)));
}

TEST_CASE("warming goes on with the next tier where the first one is full") {
  Fixture fixture;
  const SmallFileSystem small(fixture.options.tiers.front().path, "size=6m,mode=0700");
  fixture.options.tiers.push_back(
      {.kind = TierKind::kHdd, .path = fixture.scratch.path() / "second", .budget_bytes = 64 * kMiB});
  const auto store = fixture.open();
  CHECK(Fixture::warm_all(*store) == kFiles);
  CHECK(Fixture::tier(*store).writes > 20);
  CHECK(store->stats().tiers[2].writes > 20);
}

TEST_CASE("a tier whose process has no descriptor left for a moment takes records again") {
  headrace::cache::TierState state("/ssd");
  state.note_write_error({headrace::io::ErrorCode::kSystem, EMFILE, "open /ssd/segment-00000001"});
  CHECK_FALSE(state.takes_records());
  CHECK(state.describe().starts_with("write failed: open /ssd/segment-00000001"));
  CHECK(state.describe().ends_with("(tried again every 1 s)"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!state.takes_records() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(state.describe() == "ok");
}

TEST_CASE("reads that fail for want of memory end no tier") {
  headrace::cache::TierState state("/ssd");
  for (int i = 0; i < 100; ++i) state.note_read_error({headrace::io::ErrorCode::kSystem, ENOMEM, "read"});
  CHECK(state.is_read());
  CHECK(state.errors() == 100);
  for (int i = 0; i < 16; ++i) state.note_read_error({headrace::io::ErrorCode::kSystem, EIO, "read"});
  CHECK_FALSE(state.is_read());
}

TEST_CASE("a tier that cannot be written to is still read") {
  Fixture fixture;
  fixture.options.make_tier_engine = faulty({.seed = 3, .after_operations = 40, .no_space_one_in = 1});
  const auto store = fixture.open();
  const std::size_t warmed = Fixture::warm_all(*store);
  CHECK(warmed >= 40);
  CHECK(warmed < kFiles);
  CHECK(Fixture::tier(*store).state.starts_with("no space: "));
  CHECK(fixture.read_all(*store) == kFiles);
  CHECK(Fixture::tier(*store).hits >= warmed);
  CHECK(Fixture::tier(*store).writes == warmed);
}

TEST_CASE("lost writes are found by their checksums") {
  Fixture fixture;
  fixture.options.make_tier_engine = faulty({.seed = 9, .lost_write_one_in = 4});
  const auto store = fixture.open();
  CHECK(Fixture::warm_all(*store) == kFiles);
  CHECK(fixture.read_all(*store) == kFiles);
  CHECK(Fixture::tier(*store).corrupt > 5);
}

TEST_CASE("a full file system ends admission, and what is there is served") {
  Fixture fixture;
  const SmallFileSystem small(fixture.options.tiers.front().path, "size=6m,mode=0700");
  {
    const auto store = fixture.open();
    const std::size_t warmed = Fixture::warm_all(*store);
    CHECK(warmed > 20);  // one segment of 4 MiB
    CHECK(warmed < kFiles);
    CHECK(Fixture::tier(*store).state.starts_with("no space: "));
    CHECK(fixture.read_all(*store) == kFiles);
    CHECK(Fixture::tier(*store).hits == warmed);
  }
  const auto store = fixture.open();
  CHECK(fixture.read_all(*store) == kFiles);
  CHECK(Fixture::tier(*store).hits > 20);
}

TEST_CASE("a full file system that gets room again is filled on") {
  Fixture fixture;
  const SmallFileSystem small(fixture.options.tiers.front().path, "size=6m,mode=0700");
  const auto store = fixture.open();
  REQUIRE(Fixture::warm_all(*store) < kFiles);
  REQUIRE(Fixture::tier(*store).state.find("(tried again every 1 s)") != std::string::npos);
  small.resize("size=64m");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Fixture::warm_all(*store) < kFiles && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(Fixture::warm_all(*store) == kFiles);
  CHECK(Fixture::tier(*store).state == "ok");
}

TEST_CASE("a read-only file system is served from") {
  Fixture fixture;
  const SmallFileSystem small(fixture.options.tiers.front().path, "size=64m,mode=0700");
  REQUIRE(Fixture::warm_all(*fixture.open()) == kFiles);
  small.make_read_only();
  const auto store = fixture.open();
  CHECK(fixture.read_all(*store) == kFiles);
  CHECK(Fixture::tier(*store).hits == kFiles);
  CHECK(Fixture::tier(*store).state.starts_with("read-only: "));
}

// Takes away the folder that the store has open and puts another at its path. `same_files`: its files are the very
// same ones, as a file system that is mounted anew shows them; else copies.
void replace_folder(const fs::path& folder, bool same_files) {
  const fs::path anew = folder.string() + ".anew";
  if (same_files) {  // moved: a link to a file would change its ctime
    fs::create_directory(anew);
    for (const auto& each : fs::directory_iterator(folder)) fs::rename(each.path(), anew / each.path().filename());
  } else {
    fs::copy(folder, anew, fs::copy_options::recursive);
  }
  fs::remove_all(folder);
  fs::rename(anew, folder);
}

TEST_CASE("a source that was unmounted and mounted anew is read again") {
  Fixture fixture;
  const fs::path source = fixture.scratch.path() / "source";
  fs::copy(fixture.source.path(), source, fs::copy_options::recursive);
  fixture.options.source = source;
  fixture.options.tiers.clear();
  const auto store = fixture.open();
  replace_folder(source, true);
  CHECK(fixture.read_all(*store) == kFiles);
  CHECK(store->stats().tiers.back().state == "ok");
  CHECK(store->stats().failures == 0);
}

TEST_CASE("a worker that takes over the descriptor of an unmounted source finds it at its path") {
  Fixture fixture;
  const fs::path source = fixture.scratch.path() / "source";
  fs::copy(fixture.source.path(), source, fs::copy_options::recursive);
  const headrace::io::UniqueFd inherited(::open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  fixture.options.source = source;
  fixture.options.source_fd = inherited.get();
  fixture.options.tiers.clear();
  replace_folder(source, true);
  CHECK(fixture.read_all(*fixture.open()) == kFiles);
  fixture.options.source_path_covered = true;  // then the path is of no use
  CHECK_FALSE(Store::open(fixture.options).has_value());
}

TEST_CASE("a file system that is mounted in the place of another is not served from the old one's records") {
  Fixture fixture;
  const fs::path source = fixture.scratch.path() / "source";
  fixture.options.source = source;
  const auto read_first = [&](char content) {
    const SmallFileSystem image(source, "size=1m,mode=0700");
    const fs::path file = source / "class" / "0.jpg";
    fs::create_directory(source / "class");
    std::ofstream(file) << std::string(5000, content);
    const timespec past[2] = {{.tv_sec = 1'000'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000'000, .tv_nsec = 0}};
    REQUIRE(::utimensat(AT_FDCWD, file.c_str(), past, 0) == 0);
    const auto store = fixture.open();
    const auto view = store->read(store->catalog().sample_entry(0));
    REQUIRE(view.has_value());
    CHECK(view->bytes().front() == static_cast<std::byte>(content));
    REQUIRE(store->flush().has_value());
  };
  read_first('a');
  read_first('b');  // the same path, size, mtime and inode
}

bool runs(const std::string& command) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  return std::system(("( " + command + " ) >/dev/null 2>&1").c_str()) == 0;
}

// Writes over the content in the image itself: nothing that stat() shows changes.
void replace_in_image(const fs::path& image, const std::string& before, const std::string& after) {
  std::fstream stream(image, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const std::size_t at = bytes.find(before);
  REQUIRE(at != std::string::npos);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.write(after.data(), static_cast<std::streamsize>(after.size()));
}

TEST_CASE("an image whose files differ in content alone is told from another one by its file system's id") {
  Fixture fixture;
  const fs::path source = fixture.scratch.path() / "source";
  const std::string folder = fixture.scratch.path().string();
  const std::string point = source.string();
  fixture.options.source = source;
  fs::create_directory(source);
  const std::string before(5000, 'a');
  const std::string after(5000, 'b');
  fixture.scratch.write("content", before);
  struct Unmount {
    const fs::path& point;
    ~Unmount() { ::umount2(point.c_str(), MNT_DETACH); }  // where a check ends the test early
  } const unmount{source};
  const bool made = runs("cd " + folder + " && truncate -s 16M 1 && mkfs.ext4 -q -F 1 && mount -o loop 1 " + point +
                         " && mkdir source/class && cp content source/class/0.jpg && umount " + point +
                         " && cp 1 2 && e2fsck -fy 2; tune2fs -U random 2");
  if (!made) skip("needs the right to mount an ext4 image, and e2fsprogs");
  replace_in_image(fixture.scratch.path() / "2", before, after);
  const auto read_first = [&](const std::string& image) {
    REQUIRE(runs("mount -o loop " + folder + "/" + image + " " + point));
    auto store = fixture.open();
    const auto bytes = [&] {
      const auto view = store->read(store->catalog().sample_entry(0));
      REQUIRE(view.has_value());
      return std::string(reinterpret_cast<const char*>(view->bytes().data()), view->bytes().size());
    }();
    REQUIRE(store->flush().has_value());
    store.reset();
    for (int attempt = 0; attempt < 200 && !runs("umount " + point); ++attempt) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return bytes;
  };
  CHECK(read_first("1") == before);
  CHECK(read_first("2") == after);
  CHECK(read_first("1") == before);
}

TEST_CASE("another folder in the place of the source is not taken for it") {
  Fixture fixture;
  const fs::path source = fixture.scratch.path() / "source";
  fs::copy(fixture.source.path(), source, fs::copy_options::recursive);
  fixture.options.source = source;
  fixture.options.tiers.clear();
  const auto store = fixture.open();
  replace_folder(source, false);
  for (SampleIndex i = 0; i < 3; ++i) {
    const auto view = store->read(store->catalog().sample_entry(i));
    REQUIRE_FALSE(view.has_value());
    CHECK(view.error().os_errno == ENOENT);
  }
}

}  // namespace

}  // namespace store_fault_test
