// SPDX-License-Identifier: Apache-2.0
// Small reads of large files: what they cost the source, and what is kept for the next one.
#include "headrace/cache/store/range_choice.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/store.h"
#include "headrace/cache/store/lean_read.h"
#include "headrace/io/engine.h"

#include "support/engine_around.h"
#include "support/temp_dir.h"

namespace range_choice_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::EntryId;
using headrace::cache::FollowOptions;
using headrace::cache::kChunkBytes;
using headrace::cache::ReadHint;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::View;
using headrace::io::Engine;
using headrace::io::ErrorCode;
using headrace::io::Operation;
using headrace::io::Result;
using headrace::test::EngineAround;
using headrace::test::TempDir;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kFileBytes = 64 * kMiB;

// Counts how often a file is opened for a read.
class CountsOpens final : public EngineAround {
 public:
  CountsOpens(std::unique_ptr<Engine> inner, std::atomic<int>& opens) : EngineAround(std::move(inner)), opens_(opens) {}
  void submit(Operation& operation) override {
    opens_ += operation.kind == Operation::Kind::kReadPath ? 1 : 0;
    EngineAround::submit(operation);
  }

 private:
  std::atomic<int>& opens_;
};

// A sparse file of 64 MiB in which each page begins with its number, and a store.
class Pack {
 public:
  Pack() {
    write_version("pack.bin", 'a');
    options.source = source.path();
  }
  void write_version(const char* name, char version) const {
    const fs::path file = source.write(name, "");
    fs::resize_file(file, kFileBytes);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t page = 0; page < kFileBytes / kPage; page += 64) {
      stream.seekp(static_cast<std::streamoff>(page * kPage));
      stream << mark(page, version);
    }
  }
  [[nodiscard]] static std::string mark(std::uint64_t page, char version) { return version + std::to_string(page); }

  void open(std::uint64_t ram_bytes) {
    options.ram_bytes = ram_bytes;
    store = std::move(*Store::open(options));
    entry = *store->catalog().find("pack.bin");
  }
  [[nodiscard]] Result<View> read(std::uint64_t offset, std::uint64_t length, ReadHint hint = ReadHint::kNow) const {
    std::promise<Result<View>> promise;
    store->read_range_async(
        entry, offset, length, [&](Result<View> view) { promise.set_value(std::move(view)); }, hint);
    return promise.get_future().get();
  }
  // What the source gave for a read of so many bytes.
  [[nodiscard]] std::uint64_t cost_of(std::uint64_t offset, std::uint64_t length) const {
    const std::uint64_t before = source_bytes();
    const Result<View> view = read(offset, length);
    REQUIRE(view.has_value());
    REQUIRE(view->bytes().size() == length);
    return source_bytes() - before;
  }
  [[nodiscard]] std::uint64_t source_bytes() const { return store->stats().tiers.back().hit_bytes; }

  TempDir source;
  TempDir scratch;
  StoreOptions options;
  std::unique_ptr<Store> store;
  EntryId entry = 0;
};

std::string text_at_begin(const View& view) {
  const char* text = reinterpret_cast<const char*>(view.bytes().data());
  return {text, std::find(text, text + view.bytes().size(), '\0')};
}

std::size_t open_count(const fs::path& file) {
  std::size_t count = 0;
  for (const auto& descriptor : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += fs::read_symlink(descriptor, gone) == file ? 1 : 0;
  }
  return count;
}

TEST_CASE("a small read of a large file costs the source its pages") {
  Pack pack;
  for (const std::uint64_t ram_bytes : {std::uint64_t{0}, 32 * kMiB}) {  // nothing can stay of a file of 64 MiB
    CAPTURE(ram_bytes);
    pack.open(ram_bytes);
    std::mt19937_64 random(1);
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t page = random() % (kFileBytes / kPage / 64 - 1) * 64;
      const Result<View> view = pack.read(page * kPage, 2 * kPage);
      REQUIRE(view.has_value());
      REQUIRE(text_at_begin(*view) == Pack::mark(page, 'a'));
    }
    CHECK(pack.source_bytes() == 500 * 2 * kPage);
    CHECK(pack.cost_of(5 * kMiB + kPage - 10, 20) == 2 * kPage);
    CHECK(pack.cost_of(2 * kChunkBytes - 10, 20) == 2 * kPage);  // across two chunks
    CHECK(pack.cost_of(kFileBytes - 100, 100) == kPage);
  }
}

TEST_CASE("a stream that begins in the middle of a large file is fetched by chunks, and read ahead") {
  Pack pack;
  pack.open(32 * kMiB);
  constexpr std::uint64_t kRead = 128 << 10;
  for (std::uint64_t offset = 20 * kMiB; offset < 44 * kMiB; offset += kRead) {
    REQUIRE(pack.read(offset, kRead)->bytes().size() == kRead);
  }
  const auto source = pack.store->stats().tiers.back();
  CHECK(source.hits < 32);  // 192 reads
  CHECK(source.hit_bytes <= 24 * kMiB + 3 * kChunkBytes);
}

TEST_CASE("a chunk that can stay in memory comes once its ranges have cost as much") {
  Pack pack;
  pack.open(256 * kMiB);
  std::uint64_t reads = 0;
  std::uint64_t cost = 0;
  for (std::uint64_t page = 0; cost <= kPage; page += 7) {
    cost = pack.cost_of(4 * kChunkBytes + page % 1024 * kPage, kPage);
    ++reads;
  }
  CHECK(cost == kChunkBytes);
  CHECK(reads == 62);  // of 68 KiB each, where the chunk is 4160
  CHECK(pack.cost_of(4 * kChunkBytes + 77, 1000) == 0);
  CHECK(pack.cost_of(5 * kChunkBytes + 77, 1000) == kPage);
}

TEST_CASE("what a followed order wants on a disk tier is fetched by chunks at once, other files are not") {
  Pack pack;
  pack.options.tiers = {{.kind = TierKind::kSsd, .path = pack.scratch.path() / "tier", .budget_bytes = 256 * kMiB}};
  pack.open(32 * kMiB);
  CHECK(pack.cost_of(9 * kMiB, kPage) == kPage);
  const auto order = headrace::cache::make_order("sequential", {.sample_count = 1});
  REQUIRE(order.has_value());
  const auto following = pack.store->follow(**order, FollowOptions{});
  CHECK(pack.cost_of(9 * kMiB, kPage) == kChunkBytes);
}

TEST_CASE("a read ahead alone brings and pins what it asked for, however large it is") {
  Pack pack;
  pack.open(16 * kMiB);
  std::vector<View> views;
  for (std::uint64_t chunk = 0; chunk < 6; ++chunk) {  // all six chunks would not fit
    Result<View> view = pack.read(chunk * kChunkBytes + kMiB, 2 * kMiB, ReadHint::kAheadAlone);
    REQUIRE(view.has_value());
    CHECK(text_at_begin(*view) == Pack::mark((chunk * kChunkBytes + kMiB) / kPage, 'a'));
    views.push_back(std::move(*view));
  }
  CHECK(pack.source_bytes() == 6 * 2 * kMiB);
}

TEST_CASE("a read ahead alone pins no chunk that is in memory") {
  Pack pack;
  pack.open(13 * kMiB);
  CHECK(pack.cost_of(kChunkBytes, 2 * kMiB) == kChunkBytes);
  const Result<View> view = pack.read(kChunkBytes, kPage, ReadHint::kAheadAlone);
  REQUIRE(view.has_value());
  CHECK(text_at_begin(*view) == Pack::mark(kChunkBytes / kPage, 'a'));
  CHECK(pack.source_bytes() == kChunkBytes);
  CHECK(pack.read(6 * kChunkBytes, 2 * kChunkBytes).has_value());  // takes three chunks of memory
}

// A pack with records of 256 KiB, a tier, and little memory.
class PackOnTier : public Pack {
 public:
  static constexpr std::uint64_t kRecord = 64 * kPage;  // each has its mark
  explicit PackOnTier(std::uint64_t tier_bytes = 256 * kMiB) {
    options.tiers = {{.kind = TierKind::kSsd, .path = tier_path(), .budget_bytes = tier_bytes}};
    open(32 * kMiB);
  }
  [[nodiscard]] fs::path tier_path() const { return scratch.path() / "tier"; }
  void open_again() {
    store.reset();
    open(32 * kMiB);
  }
  // The bytes are those of the version.
  [[nodiscard]] TierKind served_from(std::uint64_t offset, char version, std::uint64_t length = kRecord,
                                     ReadHint hint = ReadHint::kAheadAlone) const {
    const Result<View> view = read(offset, length, hint);
    REQUIRE(view.has_value());
    REQUIRE(view->bytes().size() == length);
    CHECK(text_at_begin(*view) == mark(offset / kPage, version));
    return view->served_from();
  }
  void flush() const { REQUIRE(store->flush().has_value()); }
};

TEST_CASE("a range that is read ahead alone is kept on a tier by itself") {
  PackOnTier pack;
  for (std::uint64_t offset = 0; offset < kFileBytes; offset += 2 * PackOnTier::kRecord) {
    CHECK(pack.served_from(offset, 'a') == TierKind::kSource);
    pack.flush();
  }
  CHECK(pack.source_bytes() == kFileBytes / 2);  // no chunk was brought, though all of them would have stayed
  for (std::uint64_t offset = 0; offset < kFileBytes; offset += 2 * PackOnTier::kRecord)
    CHECK(pack.served_from(offset, 'a') == TierKind::kSsd);
  CHECK(pack.source_bytes() == kFileBytes / 2);
  pack.open_again();
  CHECK(pack.served_from(2 * PackOnTier::kRecord, 'a') == TierKind::kSsd);
  CHECK(pack.served_from(0, 'a', PackOnTier::kRecord / 2) == TierKind::kSource);  // another range
  CHECK(pack.store->stats().tiers[1].corrupt == 0);
}

TEST_CASE("what is no record of an order, or a small one, is not kept on a tier by itself") {
  PackOnTier pack;
  for (const ReadHint hint : {ReadHint::kNow, ReadHint::kAheadUnasked}) {
    CHECK(pack.served_from(21 * kMiB, 'a', PackOnTier::kRecord, hint) == TierKind::kSource);
    pack.flush();
    CHECK(pack.served_from(21 * kMiB, 'a', PackOnTier::kRecord, hint) == TierKind::kSource);
  }
  constexpr std::uint64_t kSmall = headrace::cache::kKeptRangeBytesMin - 1;
  CHECK(pack.served_from(9 * kMiB, 'a', kSmall) == TierKind::kSource);
  pack.flush();
  CHECK(pack.served_from(9 * kMiB, 'a', kSmall) == TierKind::kSource);
  CHECK(pack.store->stats().tiers[1].used_bytes == 0);
}

TEST_CASE("a range on a tier is of the version that the file has") {
  PackOnTier pack;
  pack.options.catalog_file = pack.scratch.path() / "catalog";
  pack.open_again();  // saves the catalog
  CHECK(pack.served_from(kMiB, 'a') == TierKind::kSource);
  pack.flush();
  CHECK(pack.served_from(kMiB, 'a') == TierKind::kSsd);
  SUBCASE("it was replaced, and that was seen") {
    pack.write_version("pack.bin", 'b');
    REQUIRE(pack.store->look_at(pack.entry).has_value());
  }
  SUBCASE("it was replaced while nobody looked") {
    pack.store.reset();
    pack.write_version("pack.bin", 'b');
    pack.open(32 * kMiB);
  }
  CHECK(pack.served_from(kMiB, 'b') == TierKind::kSource);
  pack.flush();
  CHECK(pack.served_from(kMiB, 'b') != TierKind::kSource);
}

TEST_CASE("a pack that memory can hold comes there by chunks, not range by range to the tier") {
  PackOnTier pack;
  pack.store.reset();
  pack.open(256 * kMiB);
  for (int i = 0; i < 13; ++i) {  // of 320 KiB each, where the chunk is 4160
    CHECK(pack.served_from(9 * kMiB, 'a') == TierKind::kSource);
    pack.flush();
  }
  CHECK(pack.served_from(9 * kMiB, 'a') == TierKind::kRam);
}

TEST_CASE("a range is known to be on a tier, by itself or with its chunks") {
  const PackOnTier pack;
  CHECK(pack.served_from(kMiB, 'a') == TierKind::kSource);
  pack.flush();
  CHECK(pack.store->is_range_on_disk(pack.entry, kMiB, PackOnTier::kRecord));
  CHECK_FALSE(pack.store->is_range_on_disk(pack.entry, kMiB, PackOnTier::kRecord + kPage));
  CHECK_FALSE(pack.store->is_range_on_disk(pack.entry, 2 * kMiB, PackOnTier::kRecord));
  CHECK_FALSE(pack.store->is_on_disk(pack.entry));
  std::promise<bool> warmed;
  pack.store->warm(pack.entry, [&](const auto& status) { warmed.set_value(status.has_value()); });
  REQUIRE(warmed.get_future().get());
  CHECK(pack.store->is_range_on_disk(pack.entry, kChunkBytes - kPage, 2 * kPage));
  CHECK_FALSE(pack.store->is_range_on_disk(pack.entry, kFileBytes, kPage));
}

TEST_CASE("a part of a chunk that is read ahead and waits for memory is one for now once somebody waits for it") {
  PackOnTier pack;
  const std::vector<std::uint64_t> kept_bytes = {7 * kMiB, 7 * kMiB, 7 * kMiB, 7 * kMiB, 4 * kMiB - 12 * kPage};
  for (std::size_t i = 0; i < kept_bytes.size(); ++i)
    pack.source.write("kept" + std::to_string(i), std::string(kept_bytes[i], 'k'));
  pack.source.write("small", "s");
  pack.open_again();
  std::promise<bool> warmed;
  pack.store->warm(pack.entry, [&](const auto& status) { warmed.set_value(status.has_value()); });
  REQUIRE(warmed.get_future().get());
  const auto read_file = [&](const std::string& name, ReadHint hint) {
    std::promise<bool> read;
    pack.store->read_async(
        *pack.store->catalog().find(name), [&](const auto& view) { read.set_value(view.has_value()); }, hint);
    REQUIRE(read.get_future().get());
  };
  for (std::size_t i = 0; i < kept_bytes.size(); ++i)
    read_file("kept" + std::to_string(i), ReadHint::kAheadAndKeep);  // 28 KiB are left

  std::promise<Result<View>> promise;
  std::future<Result<View>> ahead = promise.get_future();
  pack.store->read_range_async(
      pack.entry, 4 * kMiB, PackOnTier::kRecord / 4, [&](Result<View> view) { promise.set_value(std::move(view)); },
      ReadHint::kAheadAlone);
  pack.store->hurry(pack.entry);
  // Others read on meanwhile, so that nothing stands still: then what is kept would go for a read ahead as well.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto is_there = [&] { return ahead.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  while (!is_there() && std::chrono::steady_clock::now() < deadline) {
    read_file("small", ReadHint::kNow);
    pack.store->drop(*pack.store->catalog().find("small"));
  }
  CHECK(is_there());
  for (std::size_t i = 0; i < kept_bytes.size(); ++i)
    pack.store->release(*pack.store->catalog().find("kept" + std::to_string(i)));
  const Result<View> view = ahead.get();
  REQUIRE(view.has_value());
  CHECK(view->served_from() == TierKind::kSsd);
  CHECK(text_at_begin(*view) == Pack::mark(4 * kMiB / kPage, 'a'));
}

TEST_CASE("a damaged range on a tier is read from the source") {
  PackOnTier pack;
  CHECK(pack.served_from(kMiB, 'a') == TierKind::kSource);
  pack.store.reset();
  for (const auto& file : fs::directory_iterator(pack.tier_path())) {
    if (!file.path().filename().string().starts_with("segment-") || file.path().extension() == ".index") continue;
    std::fstream segment(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    segment.seekp(5000);
    segment << 'x';
  }
  pack.open(32 * kMiB);
  CHECK(pack.served_from(kMiB, 'a') == TierKind::kSource);
  CHECK(pack.store->stats().tiers[1].corrupt == 1);
  pack.flush();
  CHECK(pack.served_from(kMiB, 'a') == TierKind::kSsd);
}

TEST_CASE("ranges of a pack that its tier has no room for are read alone, the others come from there") {
  PackOnTier pack(16 * kMiB);
  const auto read_all = [&] {
    std::uint64_t from_tier = 0;
    for (std::uint64_t offset = 0; offset < kFileBytes; offset += PackOnTier::kRecord) {
      from_tier += pack.served_from(offset, 'a') == TierKind::kSsd ? 1 : 0;
      pack.flush();
    }
    return from_tier;
  };
  CHECK(read_all() == 0);
  CHECK(pack.source_bytes() == kFileBytes);
  CHECK(read_all() == 48);  // three in each segment of a megabyte
  CHECK(pack.source_bytes() <= 2 * kFileBytes - 48 * PackOnTier::kRecord);
}

// A local disk delivers a record before two threads have woken each other.
TEST_CASE("a caller that may wait reads a range of a large file itself, as long as it is no chunk") {
  Pack pack;
  pack.open(32 * kMiB);
  const auto answers_here = [&](std::uint64_t offset, std::uint64_t length) {
    std::promise<std::thread::id> answered_on;
    pack.store->read_range_async(
        pack.entry, offset, length,
        [&](const Result<View>& view) {
          CHECK(view->bytes().size() == length);
          answered_on.set_value(std::this_thread::get_id());
        },
        ReadHint::kNowHere);
    return answered_on.get_future().get() == std::this_thread::get_id();
  };
  CHECK(answers_here(9 * kMiB, kPage));
  CHECK(answers_here(11 * kMiB, kPage));  // the file is open by now
  CHECK_FALSE(answers_here(20 * kMiB, 2 * kMiB));

  pack.write_version("new.bin", 'b');
  fs::rename(pack.source.path() / "new.bin", pack.source.path() / "pack.bin");
  CHECK_FALSE(answers_here(13 * kMiB, kPage));  // what it is now, is found out elsewhere
}

TEST_CASE("small reads open a file once, and let go of it when the store closes") {
  Pack pack;
  std::atomic<int> opens = 0;
  pack.options.make_source_engine = [&]() -> Result<std::unique_ptr<Engine>> {
    return std::make_unique<CountsOpens>(std::move(*headrace::io::open_engine({})), opens);
  };
  const fs::path file = fs::canonical(pack.source.path()) / "pack.bin";
  pack.open(32 * kMiB);
  for (std::uint64_t i = 1; i < 50; ++i) CHECK(pack.cost_of(i * kMiB, kPage) == kPage);
  CHECK(opens == 1);
  CHECK(open_count(file) == 1);
  pack.store.reset();
  CHECK(open_count(file) == 0);
}

TEST_CASE("a file that was replaced while it was open is read as it is now") {
  Pack pack;
  pack.open(32 * kMiB);
  CHECK(text_at_begin(*pack.read(64 * kPage, kPage)) == Pack::mark(64, 'a'));
  pack.write_version("new.bin", 'b');
  fs::rename(pack.source.path() / "new.bin", pack.source.path() / "pack.bin");
  CHECK(text_at_begin(*pack.read(128 * kPage, kPage)) == Pack::mark(128, 'b'));
  CHECK(text_at_begin(*pack.read(64 * kPage, kPage)) == Pack::mark(64, 'b'));
}

TEST_CASE("a file that changes under small reads gives bytes of one version, or kStale") {
  Pack pack;
  pack.open(32 * kMiB);
  std::atomic<bool> done = false;
  std::atomic<int> good = 0;
  std::vector<std::string> faults(3);
  std::vector<std::jthread> readers;
  for (std::size_t reader = 0; reader < faults.size(); ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937_64 random(reader);
      while (!done.load() && faults[reader].empty()) {
        const std::uint64_t page = random() % (kFileBytes / kPage / 64 - 1) * 64;
        const Result<View> view = pack.read(page * kPage, 65 * kPage);  // two marks
        if (!view) {
          if (view.error().code != ErrorCode::kStale) faults[reader] = view.error().message();
          continue;
        }
        ++good;
        const std::string first = text_at_begin(*view);
        const char* second = reinterpret_cast<const char*>(view->bytes().data()) + 64 * kPage;
        if (first.empty() || first != Pack::mark(page, first.front())) faults[reader] = "wrong bytes: " + first;
        if (second != Pack::mark(page + 64, first.front())) faults[reader] = "a mix: " + first;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    pack.write_version("new.bin", static_cast<char>('b' + i));
    const int before = good;
    fs::rename(pack.source.path() / "new.bin", pack.source.path() / "pack.bin");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (good < before + 10 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  }
  done = true;
  readers.clear();
  for (const std::string& fault : faults) CHECK(fault == "");
  CHECK(good >= 200);
}

}  // namespace

}  // namespace range_choice_test
