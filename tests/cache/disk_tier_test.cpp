// SPDX-License-Identifier: Apache-2.0
// The disk tier through the Store: what it holds, what it survives, and that no wrong byte comes out of it.
#include "headrace/cache/disk/disk_tier.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/cache/disk/record_format.h"
#include "headrace/cache/disk/segment.h"
#include "headrace/cache/store.h"
#include "headrace/cache/tier_tools.h"
#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace disk_tier_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::describe_tier;
using headrace::cache::EntryId;
using headrace::cache::footprint_bytes;
using headrace::cache::kChunkBytes;
using headrace::cache::RecordTrailer;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::TierLabel;
using headrace::cache::TierOptions;
using headrace::cache::TierStats;
using headrace::cache::trailer_hash;
using headrace::cache::View;
using headrace::io::ErrorCode;
using headrace::io::Result;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::uint64_t kMiB = 1 << 20;

std::string text_of(const View& view) {
  return {reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size()};
}

// `count` files of sizes around a page border and around 20 kB.
class Fixture {
 public:
  explicit Fixture(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = i % 4 == 0 ? 4096 * (i % 7) + 3960 + i % 300 : 10'000 + i * 37 % 20'000;
      contents.emplace_back(as_text(pattern_bytes(bytes, i)));
      source.write("class" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg", contents.back());
    }
  }

  [[nodiscard]] fs::path tier_path() const { return scratch.path() / "tier"; }
  [[nodiscard]] StoreOptions options(std::uint64_t tier_bytes = 64 * kMiB) const {
    StoreOptions made;
    made.source = source.path();
    made.tiers = {{.kind = TierKind::kSsd, .path = tier_path(), .budget_bytes = tier_bytes}};
    return made;
  }
  [[nodiscard]] std::unique_ptr<Store> open() const { return open(options()); }
  [[nodiscard]] static std::unique_ptr<Store> open(const StoreOptions& options) {
    auto store = Store::open(options);
    REQUIRE_MESSAGE(store.has_value(), store.error().message());
    return std::move(*store);
  }

  // The content of the file that sample `index` stands for.
  [[nodiscard]] const std::string& content_of(const Store& store, EntryId entry) const {
    const std::string name = fs::path(store.catalog().path(entry)).stem();
    return contents[std::stoul(name)];
  }

  // Reads everything, compares every byte; how many came from the disk tier.
  int read_all(Store& store) const {
    int from_tier = 0;
    for (SampleIndex i = 0; i < store.catalog().sample_count(); ++i) {
      const EntryId entry = store.catalog().sample_entry(i);
      auto view = store.read(entry);
      REQUIRE_MESSAGE(view.has_value(), view.error().message());
      REQUIRE(text_of(*view) == content_of(store, entry));
      from_tier += view->served_from() == TierKind::kSsd || view->served_from() == TierKind::kHdd ? 1 : 0;
    }
    return from_tier;
  }

  static TierStats tier_stats(const Store& store, std::size_t tier = 0) { return store.stats().tiers[1 + tier]; }

  TempDir source;
  TempDir scratch;
  std::vector<std::string> contents;
};

Status warm(Store& store, EntryId entry) {
  std::promise<Status> promise;
  store.warm(entry, [&](Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

void warm_all(Store& store) {
  for (SampleIndex i = 0; i < store.catalog().sample_count(); ++i) {
    const Status status = warm(store, store.catalog().sample_entry(i));
    REQUIRE_MESSAGE(status.has_value(), status.error().message());
  }
}

std::vector<fs::path> files_named(const fs::path& folder, const std::string& suffix, const std::string& prefix) {
  std::vector<fs::path> found;
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename();
    if (name.starts_with(prefix) && name.ends_with(suffix)) found.push_back(file.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void flip_bit(const fs::path& file, std::uint64_t offset, int bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(byte ^ (1 << bit)));
}

TEST_CASE("what the first epoch read comes from the tier in the second, and after a restart") {
  const Fixture fixture(50);
  {
    auto store = fixture.open();
    CHECK(fixture.read_all(*store) == 0);
    REQUIRE(store->flush().has_value());
    CHECK(fixture.read_all(*store) == 50);
    CHECK(Fixture::tier_stats(*store).writes == 50);
  }
  auto store = fixture.open();
  CHECK(fixture.read_all(*store) == 50);
  CHECK(store->stats().tiers.back().hits == 0);
  CHECK(Fixture::tier_stats(*store).writes == 0);
}

TEST_CASE("warming fills the tier, and once it is full says so and writes nothing more") {
  const Fixture fixture(400);  // about 8 MB into 4 MiB
  auto store = fixture.open(fixture.options(4 * kMiB));
  int refused = 0;
  for (SampleIndex i = 0; i < store->catalog().sample_count(); ++i) {
    const EntryId entry = store->catalog().sample_entry(i);
    CHECK_FALSE(store->is_on_disk(entry));
    const Status status = warm(*store, entry);
    CHECK(store->is_on_disk(entry) == status.has_value());
    if (!status) {
      CHECK(status.error().code == ErrorCode::kNoSpace);
      ++refused;
    }
  }
  CHECK(refused > 50);
  const TierStats full = Fixture::tier_stats(*store);
  CHECK(full.state == "full");
  CHECK(full.used_bytes > 3 * kMiB);
  CHECK(fixture.read_all(*store) == 400 - refused);
  CHECK(Fixture::tier_stats(*store).writes == full.writes);
  std::uint64_t on_disk = 0;
  for (const fs::path& file : files_named(fixture.tier_path(), "", "segment-")) {
    if (!file.string().ends_with(".index")) on_disk += fs::file_size(file);
  }
  CHECK(on_disk <= 4 * kMiB);
}

TEST_CASE("the hash of a payload is XXH3 on every processor") {
  for (const std::size_t bytes : {0, 1, 16, 240, 241, 4096, 108'000}) {
    const std::vector<std::byte> payload = pattern_bytes(bytes, bytes);
    CHECK(headrace::cache::hash_payload(payload) == XXH3_64bits(payload.data(), payload.size()));
  }
  CHECK(headrace::cache::hash_payload({}) == 0x2d06800538d394c2);  // as published for no bytes
}

TEST_CASE("a tier that was not closed is found again by looking for its records") {
  const Fixture fixture(120);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = Store::open(fixture.options());
    if (!store) ::_exit(1);
    for (SampleIndex i = 0; i < (*store)->catalog().sample_count(); ++i) {
      if (!warm(**store, (*store)->catalog().sample_entry(i))) ::_exit(2);
    }
    ::_exit(0);  // without closing
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  auto store = fixture.open();
  CHECK(fixture.read_all(*store) == 120);
}

TEST_CASE("lost, torn and older index files cost a scan and nothing else") {
  const Fixture fixture(100);
  warm_all(*fixture.open(fixture.options(16 * kMiB)));  // several segments of 1 MiB
  const auto indexes = files_named(fixture.tier_path(), ".index", "segment-");
  REQUIRE(indexes.size() >= 2);
  fs::remove(indexes[0]);
  fs::resize_file(indexes[1], fs::file_size(indexes[1]) - 7);
  auto store = fixture.open(fixture.options(16 * kMiB));
  CHECK(fixture.read_all(*store) == 100);
}

TEST_CASE("a flipped bit anywhere in a segment or an index never becomes a wrong byte") {
  const Fixture fixture(60);
  warm_all(*fixture.open(fixture.options(16 * kMiB)));
  std::mt19937_64 random(7);
  std::vector<fs::path> files = files_named(fixture.tier_path(), "", "segment-");
  for (int round = 0; round < 40; ++round) {
    const fs::path& file = files[random() % files.size()];
    if (!fs::exists(file)) continue;
    flip_bit(file, random() % fs::file_size(file), static_cast<int>(random() % 8));
    auto store = fixture.open(fixture.options(16 * kMiB));
    fixture.read_all(*store);
    REQUIRE(store->flush().has_value());
  }
}

// Where each field lies is in cache/README.md.
TEST_CASE("a flipped bit in any field of a record or an index costs that record or a scan") {
  const Fixture fixture(6);
  warm_all(*fixture.open());
  const fs::path saved = fixture.scratch.path() / "saved";
  fs::copy(fixture.tier_path(), saved);
  // Hits after a bit of the file was flipped; without the index, records are found by their trailers.
  const auto hits_after = [&](const std::string& file, std::uint64_t offset, bool with_index) {
    fs::remove_all(fixture.tier_path());
    fs::copy(saved, fixture.tier_path());
    flip_bit(fixture.tier_path() / file, offset, static_cast<int>(offset % 8));
    if (!with_index) fs::remove(fixture.tier_path() / "segment-00000001.index");
    const auto store = fixture.open();
    return fixture.read_all(*store);
  };
  const std::uint64_t payload_bytes = fixture.contents[0].size();
  const std::uint64_t trailer = footprint_bytes(payload_bytes) - sizeof(RecordTrailer);
  for (const std::uint64_t offset : {std::uint64_t{0}, payload_bytes / 2, payload_bytes - 1}) {
    CAPTURE(offset);
    CHECK(hits_after("segment-00000001", offset, true) == 5);
    CHECK(hits_after("segment-00000001", offset, false) == 5);
  }
  for (const std::uint64_t field : {0, 4, 8, 16, 24, 32, 40, 44, 48, 52, 56, 64, 72, 80, 88, 120}) {
    CAPTURE(field);
    CHECK(hits_after("segment-00000001", trailer + field, true) == 6);
    CHECK(hits_after("segment-00000001", trailer + field, false) == 5);
  }
  for (const std::uint64_t field : {0, 8, 12, 16, 20, 24, 28, 48, 56, 64, 72, 80, 88, 96, 100}) {
    CAPTURE(field);
    CHECK(hits_after("segment-00000001.index", field, true) == 6);
  }
}

TEST_CASE("a damaged payload is counted, dropped and fetched again") {
  const Fixture fixture(1);
  warm_all(*fixture.open());
  flip_bit(files_named(fixture.tier_path(), "1", "segment-").front(), 100, 3);
  auto store = fixture.open();
  CHECK(fixture.read_all(*store) == 0);
  CHECK(Fixture::tier_stats(*store).corrupt == 1);
  REQUIRE(store->flush().has_value());
  CHECK(fixture.read_all(*store) == 1);
}

TEST_CASE("a truncated segment loses its end only") {
  const Fixture fixture(100);
  warm_all(*fixture.open());
  const fs::path segment = files_named(fixture.tier_path(), "1", "segment-").front();
  fs::resize_file(segment, kMiB + 1234);
  auto store = fixture.open();
  const int left = fixture.read_all(*store);
  CHECK(left > 20);
  CHECK(left < 100);
  REQUIRE(store->flush().has_value());
  CHECK(fixture.read_all(*store) == 100);
}

TEST_CASE("a file that changed is not served from the tier") {
  const Fixture fixture(3);
  warm_all(*fixture.open());
  const std::string changed(fixture.contents[0].size(), 'x');
  fixture.source.write("class0/0.jpg", changed);
  auto store = fixture.open();
  const auto entry = store->catalog().find("class0/0.jpg");
  REQUIRE(entry.has_value());
  auto view = store->read(*entry);
  REQUIRE(view.has_value());
  CHECK(text_of(*view) == changed);
  CHECK(view->served_from() == TierKind::kSource);
}

TEST_CASE("content that was replaced under its old size and mtime is not served from the tier") {
  const Fixture fixture(3);
  warm_all(*fixture.open());
  const fs::path file = fixture.source.path() / "class0/0.jpg";
  const auto mtime = fs::last_write_time(file);
  const std::string changed(fixture.contents[0].size(), 'x');
  fixture.source.write("class0/0.jpg", changed);  // in place: the inode stays
  fs::last_write_time(file, mtime);
  const auto store = fixture.open();
  const auto view = store->read(*store->catalog().find("class0/0.jpg"));
  REQUIRE(view.has_value());
  CHECK(text_of(*view) == changed);
  CHECK(view->served_from() == TierKind::kSource);
}

TEST_CASE("a tier of format 1 is emptied and filled anew") {
  const Fixture fixture(20);
  warm_all(*fixture.open());
  const fs::path label_file = fixture.tier_path() / "tier";
  TierLabel label;
  std::fstream stream(label_file, std::ios::in | std::ios::out | std::ios::binary);
  stream.read(reinterpret_cast<char*>(&label), sizeof label);
  label.version = 1;
  label.hash = XXH3_64bits(&label, offsetof(TierLabel, hash));
  stream.seekp(0).write(reinterpret_cast<const char*>(&label), sizeof label);
  stream.close();
  CHECK(describe_tier(fixture.tier_path()).error().code == ErrorCode::kNotFound);
  const auto store = fixture.open();
  CHECK(fixture.read_all(*store) == 0);
  REQUIRE(store->flush().has_value());
  CHECK(fixture.read_all(*store) == 20);
  CHECK(describe_tier(fixture.tier_path())->version == 2);
}

TEST_CASE("two data sets share a tier without seeing each other's files") {
  const Fixture first(20);
  Fixture second(25);
  StoreOptions options = second.options();
  options.tiers = first.options().tiers;
  warm_all(*first.open());
  {
    auto store = Fixture::open(options);
    CHECK(second.read_all(*store) == 0);
    warm_all(*store);
    CHECK(second.read_all(*store) == 25);
  }
  auto store = first.open();
  CHECK(first.read_all(*store) == 20);
}

TEST_CASE("another data set's records make room when the tier is full") {
  const Fixture first(400);
  Fixture second(100);
  StoreOptions options = second.options(4 * kMiB);
  options.tiers.front().path = first.tier_path();
  {
    auto store = first.open(first.options(4 * kMiB));
    for (SampleIndex i = 0; i < 400; ++i) static_cast<void>(warm(*store, store->catalog().sample_entry(i)));
    REQUIRE(Fixture::tier_stats(*store).state == "full");
  }
  auto store = Fixture::open(options);
  warm_all(*store);
  CHECK(second.read_all(*store) == 100);
  CHECK(Fixture::tier_stats(*store).evictions > 50);
}

TEST_CASE("records of files that are gone or were replaced make room when the tier is full") {
  const Fixture fixture(400);
  {
    auto store = fixture.open(fixture.options(4 * kMiB));
    for (SampleIndex i = 0; i < 400; ++i) static_cast<void>(warm(*store, store->catalog().sample_entry(i)));
    REQUIRE(Fixture::tier_stats(*store).state == "full");
  }
  fs::remove_all(fixture.source.path() / "class0");
  SUBCASE("gone") {
    fs::remove_all(fixture.source.path() / "class1");
  }
  SUBCASE("replaced") {
    fs::remove_all(fixture.source.path() / "class2");
    for (std::size_t i = 1; i < 400; i += 3) {
      const std::string name = "class1/" + std::to_string(i) + ".jpg";
      fs::remove(fixture.source.path() / name);
      fixture.source.write(name, fixture.contents[i]);
    }
  }
  auto store = fixture.open(fixture.options(4 * kMiB));
  warm_all(*store);
  CHECK(fixture.read_all(*store) == 133);
}

TEST_CASE("what a file is by now counts as of use where the catalog is of before") {
  const Fixture fixture(400);
  StoreOptions options = fixture.options(4 * kMiB);
  options.catalog_file = fixture.scratch.path() / "catalog";
  static_cast<void>(Fixture::open(options));
  const auto change = [&](Store& store) {  // the first third of what fills the tier
    for (SampleIndex i = 0; i < 70; ++i) REQUIRE(store.look_at(store.catalog().sample_entry(i)).has_value());
  };
  const headrace::io::UniqueFd catalog(::open(options.catalog_file.c_str(), O_RDONLY | O_CLOEXEC));
  options.catalog_fd = catalog.get();
  {
    auto store = Fixture::open(options);
    for (SampleIndex i = 0; i < 70; ++i) {
      const std::string path = store->catalog().path(store->catalog().sample_entry(i));
      fs::remove(fixture.source.path() / path);
      fixture.source.write(path, fixture.content_of(*store, store->catalog().sample_entry(i)));
    }
    change(*store);
    for (SampleIndex i = 0; i < 400; ++i) static_cast<void>(warm(*store, store->catalog().sample_entry(i)));
    REQUIRE(Fixture::tier_stats(*store).state == "full");
  }
  auto store = Fixture::open(options);  // as who takes over: the catalog is of before, and the changes are told
  change(*store);
  for (SampleIndex i = 0; i < 70; ++i) CHECK(store->is_on_disk(store->catalog().sample_entry(i)));
  for (SampleIndex i = 0; i < 400; ++i) static_cast<void>(warm(*store, store->catalog().sample_entry(i)));
  for (SampleIndex i = 0; i < 70; ++i) CHECK(store->is_on_disk(store->catalog().sample_entry(i)));
}

TEST_CASE("one process owns a tier, another is told which") {
  const Fixture fixture(1);
  auto owner = fixture.open();
  auto second = Store::open(fixture.options());
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::kBusy);
  const std::string& told = second.error().context;
  CHECK(told.find("process " + std::to_string(::getpid()) + " (") != std::string::npos);
  CHECK(told.find("cache_tests") != std::string::npos);  // the holder's command
  CHECK(told.find("name another folder") != std::string::npos);
  owner.reset();
  CHECK(Store::open(fixture.options()).has_value());
}

// A process that takes over gets its catalog from the one before.
std::unique_ptr<Store> take_over(StoreOptions options, const Store& before) {
  const headrace::io::UniqueFd catalog(::memfd_create("catalog", MFD_CLOEXEC));
  REQUIRE(before.catalog().save_fd(catalog.get()));
  options.catalog_fd = catalog.get();
  auto store = Store::open(options);
  REQUIRE_MESSAGE(store.has_value(), store.error().message());
  return std::move(*store);
}

TEST_CASE("who takes over begins without a tier that is busy, and has it once that is free") {
  const Fixture fixture(10);
  auto owner = fixture.open();
  warm_all(*owner);
  auto successor = take_over(fixture.options(), *owner);
  CHECK(Fixture::tier_stats(*successor).state.starts_with("busy: "));
  CHECK(Fixture::tier_stats(*successor).state.find("process " + std::to_string(::getpid())) != std::string::npos);
  CHECK_FALSE(successor->is_on_disk(successor->catalog().sample_entry(0)));
  CHECK(fixture.read_all(*successor) == 0);
  CHECK(successor->flush());
  owner.reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Fixture::tier_stats(*successor).state != "ok") {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(Fixture::tier_stats(*successor).samples == 10);
  CHECK(fixture.read_all(*successor) == 10);
}

TEST_CASE("who has begun without a busy tier can be closed while it is busy") {
  const Fixture fixture(1);
  auto owner = fixture.open();
  take_over(fixture.options(), *owner).reset();
  CHECK(Fixture::tier_stats(*owner).state == "ok");
}

TEST_CASE("a tier whose owner was killed is waited for until its last write has ended") {
  const Fixture fixture(1);
  static_cast<void>(fixture.open());
  const int lock = ::open((fixture.tier_path() / "lock").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
  std::thread last_write([lock] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::close(lock);
  });
  CHECK(Store::open(fixture.options()).has_value());
  last_write.join();
}

TEST_CASE("a newer, a foreign and a damaged label are refused with their reason") {
  const Fixture fixture(1);
  static_cast<void>(fixture.open());
  const fs::path label = fixture.tier_path() / "tier";
  const auto error_with = [&](std::uint64_t offset) {
    const fs::path saved = fixture.scratch.path() / "saved";
    fs::copy_file(label, saved, fs::copy_options::overwrite_existing);
    flip_bit(label, offset, 0);
    auto refused = Store::open(fixture.options());
    fs::copy_file(saved, label, fs::copy_options::overwrite_existing);
    REQUIRE_FALSE(refused.has_value());
    return refused.error();
  };
  CHECK(error_with(0).context.find("not a tier of headrace") != std::string::npos);
  CHECK(error_with(8).code == ErrorCode::kUnsupported);
  CHECK(error_with(20).code == ErrorCode::kCorrupt);
  CHECK(error_with(60).code == ErrorCode::kCorrupt);
  fs::resize_file(label, 10);
  CHECK(Store::open(fixture.options()).error().code == ErrorCode::kCorrupt);
}

TEST_CASE("a budget that the tier's block numbers cannot count is refused, with the most that it may be") {
  const Fixture fixture(1);
  const auto refused = Store::open(fixture.options((16ULL << 40) + kMiB));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().context.find("16 TiB") != std::string::npos);
  CHECK_FALSE(fs::exists(fixture.tier_path()));
  const auto most = Store::open(fixture.options(16ULL << 40));
  REQUIRE_MESSAGE(most.has_value(), most.error().message());
}

TEST_CASE("a tier folder that others may write to is refused") {
  const Fixture fixture(1);
  fs::create_directory(fixture.tier_path());
  ::chmod(fixture.tier_path().c_str(), 0777);
  auto refused = Store::open(fixture.options());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kPermission);
}

TEST_CASE("a link in the place of a segment is not followed") {
  const Fixture fixture(3);
  static_cast<void>(fixture.open());
  const fs::path victim = fixture.scratch.path() / "victim";
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, fixture.tier_path() / "segment-00000001");
  {
    auto store = fixture.open();
    fixture.read_all(*store);
    static_cast<void>(store->flush());
  }
  CHECK(fs::file_size(victim) == 8);
}

TEST_CASE("a tier deleted underneath is survived") {
  const Fixture fixture(100);
  auto store = fixture.open(fixture.options(16 * kMiB));
  for (SampleIndex i = 0; i < 20; ++i) REQUIRE(warm(*store, store->catalog().sample_entry(i)).has_value());
  fs::remove_all(fixture.tier_path());
  fixture.read_all(*store);
  CHECK_FALSE(store->flush().has_value());
  fixture.read_all(*store);
  CHECK(Fixture::tier_stats(*store).state != "ok");
}

TEST_CASE("large files are held in chunks and read by ranges from the tier") {
  Fixture fixture(0);
  const std::string big(as_text(pattern_bytes(21 * kMiB + 77, 5)));
  fixture.source.write("shard.tar", big);
  StoreOptions options = fixture.options(512 * kMiB);
  {
    auto store = Fixture::open(options);
    warm_all(*store);
    CHECK(Fixture::tier_stats(*store).samples == 6);
  }
  options.ram_bytes = 16 * kMiB;  // less than the file
  auto store = Fixture::open(options);
  const auto entry = store->catalog().find("shard.tar");
  REQUIRE(entry.has_value());
  for (std::uint64_t offset = 0; offset < big.size(); offset += 777'777) {
    std::promise<Result<View>> promise;
    store->read_range_async(*entry, offset, 777'777, [&](Result<View> view) { promise.set_value(std::move(view)); });
    auto view = promise.get_future().get();
    REQUIRE(view.has_value());
    REQUIRE(text_of(*view) == big.substr(offset, 777'777));
  }
  CHECK(store->stats().tiers.back().hits == 0);
}

std::string read_range(Store& store, EntryId entry, std::uint64_t offset, std::uint64_t length) {
  std::promise<Result<View>> promise;
  store.read_range_async(entry, offset, length, [&](Result<View> view) { promise.set_value(std::move(view)); });
  const auto view = promise.get_future().get();
  REQUIRE(view.has_value());
  return text_of(*view);
}

// The trailer of the first chunk of a large file, and the bytes of its table; patched in place.
void patch_first_chunk(const fs::path& tier, const std::function<void(RecordTrailer&, std::uint64_t& first)>& change) {
  std::uint64_t salt = 0;
  std::ifstream(tier / "tier", std::ios::binary).seekg(24).read(reinterpret_cast<char*>(&salt), sizeof salt);
  std::fstream segment(tier / "segment-00000001", std::ios::in | std::ios::out | std::ios::binary);
  const auto trailer_at = static_cast<std::streamoff>(footprint_bytes(kChunkBytes) - sizeof(RecordTrailer));
  const std::streamoff table_at = trailer_at - 64 * 8;
  RecordTrailer trailer;
  std::uint64_t first = 0;
  segment.seekg(table_at).read(reinterpret_cast<char*>(&first), sizeof first);
  segment.seekg(trailer_at).read(reinterpret_cast<char*>(&trailer), sizeof trailer);
  REQUIRE(trailer.pieces_hash != 0);
  change(trailer, first);
  trailer.hash = trailer_hash(trailer, salt);
  segment.seekp(table_at).write(reinterpret_cast<const char*>(&first), sizeof first);
  segment.seekp(trailer_at).write(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

TEST_CASE("a small read in a large file takes its pieces from the tier, and a stream or many looks the chunk") {
  Fixture fixture(0);
  const std::string big(as_text(pattern_bytes(21 * kMiB + 77, 5)));
  fixture.source.write("shard.tar", big);
  const StoreOptions options = fixture.options(512 * kMiB);
  warm_all(*Fixture::open(options));
  const auto tier_bytes_of = [&](Store& store, std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t before = Fixture::tier_stats(store).hit_bytes;
    REQUIRE(read_range(store, 1, offset, length) == big.substr(offset, length));
    return Fixture::tier_stats(store).hit_bytes - before;
  };
  constexpr std::uint64_t kPiece = 64 << 10;
  const std::uint64_t part_at = 9 * kMiB + 1000;
  {
    const auto store = Fixture::open(options);
    CHECK(tier_bytes_of(*store, part_at, 100) == kPiece);
    CHECK(tier_bytes_of(*store, 5 * kMiB - 10, 20) == 2 * kPiece);
    CHECK(tier_bytes_of(*store, big.size() - 50, 100) == 77);  // the last piece
    int looks = 1;
    while (tier_bytes_of(*store, part_at + 100, 100) == kPiece) ++looks;
    CHECK(looks > 32);
    CHECK(tier_bytes_of(*store, part_at + kPiece, 100) == 0);  // in memory now
    for (std::uint64_t i = 0; i < 15; ++i) CHECK(tier_bytes_of(*store, 5 * kMiB + i * kPiece, kPiece) == kPiece);
    CHECK(tier_bytes_of(*store, 6 * kMiB - kPiece, kPiece) == kChunkBytes);
    CHECK(tier_bytes_of(*store, 17 * kMiB, kMiB) == kChunkBytes);
    CHECK(store->stats().tiers.back().hits == 0);
  }
  SUBCASE("a damaged piece is fetched again, and the others of its record with it") {
    flip_bit(fixture.tier_path() / "segment-00000001", 3 * kPiece + 5, 2);
    const auto store = Fixture::open(options);
    CHECK(tier_bytes_of(*store, 100, 100) == kPiece);
    CHECK(tier_bytes_of(*store, 3 * kPiece, 100) == 0);
    CHECK(Fixture::tier_stats(*store).corrupt == 1);
    CHECK(store->stats().tiers.back().hits == 1);
  }
  SUBCASE("a damaged table costs the pieces, not the record") {
    patch_first_chunk(fixture.tier_path(), [](RecordTrailer&, std::uint64_t& first) { first ^= 1; });
    const auto store = Fixture::open(options);
    CHECK(tier_bytes_of(*store, 100, 100) == kChunkBytes);
    CHECK(Fixture::tier_stats(*store).corrupt == 0);
  }
  SUBCASE("a record without a table is read whole") {
    patch_first_chunk(fixture.tier_path(), [](RecordTrailer& trailer, std::uint64_t&) { trailer.pieces_hash = 0; });
    const auto store = Fixture::open(options);
    CHECK(tier_bytes_of(*store, 100, 100) == kChunkBytes);
  }
}

TEST_CASE("what is read from a slower tier moves to the faster one that has room") {
  const Fixture fixture(30);
  StoreOptions slow = fixture.options();
  slow.tiers.front().kind = TierKind::kHdd;
  warm_all(*Fixture::open(slow));
  StoreOptions both = slow;
  both.tiers.insert(both.tiers.begin(), TierOptions{TierKind::kSsd, fixture.scratch.path() / "fast", 64 * kMiB});
  auto store = Fixture::open(both);
  CHECK(fixture.read_all(*store) == 30);
  REQUIRE(store->flush().has_value());
  CHECK(Fixture::tier_stats(*store, 0).samples == 30);
  CHECK(Fixture::tier_stats(*store, 1).samples == 0);
  CHECK(fixture.read_all(*store) == 30);
  CHECK(Fixture::tier_stats(*store, 0).hits == 30);
}

TEST_CASE("a smaller budget at the next start is kept") {
  const Fixture fixture(400);
  warm_all(*fixture.open(fixture.options(16 * kMiB)));
  auto store = fixture.open(fixture.options(4 * kMiB));
  CHECK(Fixture::tier_stats(*store).used_bytes <= 4 * kMiB);
  fixture.read_all(*store);
}

}  // namespace

}  // namespace disk_tier_test
