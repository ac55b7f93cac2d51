// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "headrace/io/buffer.h"
#include "headrace/io/engine.h"
#include "headrace/io/unique_fd.h"

#include "support/resident.h"
#include "support/temp_dir.h"

namespace store_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::EntryId;
using headrace::cache::ReadHint;
using headrace::cache::Store;
using headrace::cache::StoreStats;
using headrace::cache::TierKind;
using headrace::cache::View;
using headrace::io::ErrorCode;
using headrace::io::Result;
using headrace::io::UniqueFd;
using headrace::test::as_text;
using headrace::test::pattern_bytes;
using headrace::test::skip;
using headrace::test::TempDir;

std::string text_of(const View& view) {
  return {reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size()};
}

std::string content(std::size_t bytes, std::uint64_t seed) {
  return std::string(as_text(pattern_bytes(bytes, seed)));
}

struct DataSet {
  EntryId add(const std::string& path, std::size_t bytes) {
    contents.push_back(content(bytes, contents.size()));
    dir.write(path, contents.back());
    return static_cast<EntryId>(contents.size() - 1);
  }
  std::unique_ptr<Store> open(std::uint64_t ram_bytes) {
    auto store = Store::open({.source = dir.path(), .ram_bytes = ram_bytes});
    REQUIRE(store.has_value());
    return std::move(*store);
  }
  TempDir dir;
  std::vector<std::string> contents;
};

void drop_from_page_cache(const fs::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::fdatasync(fd.get()) == 0);
  REQUIRE(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

EntryId entry_of(const Store& store, const std::string& path) {
  const auto found = store.catalog().find(path);
  REQUIRE(found.has_value());
  return *found;
}

Result<View> read_range(Store& store, EntryId entry, std::uint64_t offset, std::uint64_t length) {
  std::promise<Result<View>> promise;
  store.read_range_async(entry, offset, length, [&](Result<View> result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

#if !defined(__SANITIZE_ADDRESS__)  // which has buffers from the heap
TEST_CASE("an open store has the memory for its first reads") {
  DataSet data;
  data.add("a", 1000);
  const auto store = data.open(8 << 20);
  const auto memory = headrace::io::Buffer::allocate(8 << 20);
  REQUIRE(memory.has_value());
  CHECK(headrace::test::resident_bytes(memory->data(), 8 << 20) == 8 << 20);
}
#endif

TEST_CASE("a file is read from the source, then from memory") {
  DataSet data;
  data.add("a/1.jpg", 100'000);
  auto store = data.open(1 << 20);
  const EntryId entry = entry_of(*store, "a/1.jpg");
  {
    auto view = store->read(entry);
    REQUIRE(view.has_value());
    CHECK(text_of(*view) == data.contents[0]);
    CHECK(view->served_from() == TierKind::kSource);
  }
  auto again = store->read(entry);
  REQUIRE(again.has_value());
  CHECK(text_of(*again) == data.contents[0]);
  CHECK(again->served_from() == TierKind::kRam);
  const StoreStats stats = store->stats();
  CHECK(stats.reads == 2);
  CHECK(stats.tiers.front().hits == 1);
  CHECK(stats.tiers.back().hits == 1);
}

TEST_CASE("empty files and sizes around a page are read whole") {
  DataSet data;
  const std::vector<std::size_t> sizes = {0, 1, 4095, 4096, 4097, 8191, 8192, 12288 - 128, 12288 - 127};
  for (const std::size_t size : sizes) data.add("a/" + std::to_string(size), size);
  auto store = data.open(1 << 20);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto view = store->read(entry_of(*store, "a/" + std::to_string(sizes[i])));
    REQUIRE(view.has_value());
    CHECK(text_of(*view) == data.contents[i]);
  }
}

TEST_CASE("32 readers of one sample cost one fetch") {
  DataSet data;
  data.add("a/1.jpg", 300'000);
  auto store = data.open(1 << 20);
  const EntryId entry = entry_of(*store, "a/1.jpg");
  std::atomic<int> good = 0;
  std::vector<std::thread> readers;
  readers.reserve(32);
  for (int i = 0; i < 32; ++i) {
    readers.emplace_back([&] {
      auto view = store->read(entry);
      if (view && text_of(*view) == data.contents[0]) ++good;
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(good == 32);
  CHECK(store->stats().tiers.back().hits == 1);
}

TEST_CASE("with no RAM budget a view is good while it lives and nothing stays") {
  DataSet data;
  data.add("a/1.jpg", 50'000);
  auto store = data.open(0);
  const EntryId entry = entry_of(*store, "a/1.jpg");
  {
    auto view = store->read(entry);
    REQUIRE(view.has_value());
    auto second = store->read(entry);
    REQUIRE(second.has_value());
    CHECK(second->served_from() == TierKind::kRam);  // shared while pinned
    CHECK(text_of(*second) == data.contents[0]);
  }
  CHECK(store->stats().tiers.front().used_bytes == 0);
}

TEST_CASE("a read waits for memory until a view lets go of it") {
  DataSet data;
  data.add("a/1", 100'000);
  data.add("a/2", 100'000);
  auto store = data.open(128 << 10);  // room for one of them
  auto first = store->read(entry_of(*store, "a/1"));
  REQUIRE(first.has_value());
  std::promise<Result<View>> promise;
  auto second = promise.get_future();
  store->read_async(entry_of(*store, "a/2"), [&](Result<View> result) { promise.set_value(std::move(result)); });
  CHECK(second.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  CHECK(store->stats().tiers.front().used_bytes <= (128 << 10));
  first->reset();
  auto view = second.get();
  REQUIRE(view.has_value());
  CHECK(text_of(*view) == data.contents[1]);
}

TEST_CASE("a file larger than the RAM budget is refused whole and read by ranges") {
  DataSet data;
  data.add("a/big", 20 << 20);
  auto store = data.open(16 << 20);
  const EntryId entry = entry_of(*store, "a/big");
  auto whole = store->read(entry);
  REQUIRE_FALSE(whole.has_value());
  CHECK(whole.error().code == ErrorCode::kNoSpace);
  constexpr std::uint64_t kStep = 1'000'003;  // crosses chunk borders at odd places
  for (std::uint64_t offset = 0; offset < data.contents[0].size(); offset += kStep) {
    auto part = read_range(*store, entry, offset, kStep);
    REQUIRE(part.has_value());
    REQUIRE(text_of(*part) == data.contents[0].substr(offset, kStep));
  }
  CHECK(read_range(*store, entry, 20 << 20, 10)->bytes().empty());
  CHECK(store->stats().tiers.front().used_bytes <= (16 << 20));
}

TEST_CASE("a file of 20 GB is read with a budget of 64 MiB") {
  constexpr std::uint64_t kBytes = 20ULL << 30;
  constexpr std::uint64_t kBudget = 64 << 20;
  DataSet data;
  data.dir.write("a/shard.tar", "begin");
  const fs::path file = data.dir.path() / "a/shard.tar";
  std::error_code too_large;
  fs::resize_file(file, kBytes, too_large);  // a hole: takes no space
  if (too_large) skip("the file system has no files of 20 GB");
  const std::string mark = "in the middle";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(kBytes / 2 - 5));  // across two chunks
  stream << mark;
  stream.close();
  auto store = data.open(kBudget);
  const EntryId entry = entry_of(*store, "a/shard.tar");
  CHECK(text_of(*read_range(*store, entry, kBytes / 2 - 5, mark.size())) == mark);
  CHECK(text_of(*read_range(*store, entry, 0, 5)) == "begin");
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto part = read_range(*store, entry, kBytes / 100 * i + 1000, 300'000);
    REQUIRE(part.has_value());
    REQUIRE(part->bytes().size() == 300'000);
    REQUIRE(store->stats().tiers.front().used_bytes <= kBudget);
  }
  CHECK(store->read(entry).error().code == ErrorCode::kNoSpace);
}

TEST_CASE("a chunked file is put together by a whole read") {
  DataSet data;
  data.add("a/big", (17 << 20) + 12345);
  auto store = data.open(64 << 20);
  auto view = store->read(entry_of(*store, "a/big"));
  REQUIRE(view.has_value());
  CHECK(text_of(*view) == data.contents[0]);
}

TEST_CASE("ranges of a large file are fetched once per chunk even without a RAM budget") {
  DataSet data;
  data.add("a/big", 12 << 20);
  auto store = data.open(0);
  const EntryId entry = entry_of(*store, "a/big");
  for (std::uint64_t offset = 0; offset < (12 << 20); offset += 128 << 10) {
    auto part = read_range(*store, entry, offset, 128 << 10);
    REQUIRE(part.has_value());
    REQUIRE(text_of(*part) == data.contents[0].substr(offset, 128 << 10));
  }
  CHECK(store->stats().tiers.back().hit_bytes == (12 << 20) + (128 << 10));  // the first before it was a stream
}

TEST_CASE("a source file that vanished and came back is read again") {
  DataSet data;
  data.add("a/1", 1000);
  auto store = data.open(1 << 20);
  const EntryId entry = entry_of(*store, "a/1");
  fs::rename(data.dir.path() / "a/1", data.dir.path() / "elsewhere");
  auto gone = store->read(entry);
  REQUIRE_FALSE(gone.has_value());
  CHECK(gone.error().code == ErrorCode::kNotFound);
  CHECK(store->stats().tiers.back().state.find("failing") == 0);
  fs::rename(data.dir.path() / "elsewhere", data.dir.path() / "a/1");
  auto back = store->read(entry);
  REQUIRE(back.has_value());
  CHECK(store->stats().tiers.back().state == "ok");
}

TEST_CASE("a changed identity is not served from memory any more") {
  DataSet data;
  data.add("a/1", 1000);
  auto store = data.open(1 << 20);
  const EntryId entry = entry_of(*store, "a/1");
  auto old_view = store->read(entry);
  REQUIRE(old_view.has_value());
  const std::string grown = content(2000, 77);
  data.dir.write("a/1", grown);
  store->set_identity(entry, {.size_bytes = 2000, .mtime_ns = 1, .inode = 1});
  auto fresh = store->read(entry);
  REQUIRE(fresh.has_value());
  CHECK(text_of(*fresh) == grown);
  CHECK(text_of(*old_view) == data.contents[0]);
}

TEST_CASE("a file that vanished is not served from memory, and is again once it is back") {
  DataSet data;
  data.add("a/1", 1000);
  auto store = data.open(1 << 20);
  const EntryId entry = entry_of(*store, "a/1");
  REQUIRE(store->read(entry).has_value());
  store->set_vanished(entry);
  CHECK(store->read(entry).error().code == ErrorCode::kNotFound);
  CHECK(read_range(*store, entry, 0, 10).error().code == ErrorCode::kNotFound);
  store->set_identity(entry, store->catalog().identity(entry));
  CHECK(text_of(*store->read(entry)) == data.contents[0]);
}

TEST_CASE("what is not a file is an error, not a crash") {
  DataSet data;
  data.add("a/1", 10);
  auto store = data.open(0);
  CHECK(store->read(0).error().code == ErrorCode::kInvalidArgument);
  CHECK(store->read(1'000'000).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("dropping makes the next read a fetch") {
  DataSet data;
  data.add("a/1", 10'000);
  auto store = data.open(1 << 20);
  const EntryId entry = entry_of(*store, "a/1");
  REQUIRE(store->read(entry).has_value());
  store->drop(entry);
  REQUIRE(store->read(entry)->served_from() == TierKind::kSource);
}

TEST_CASE("a caller that may wait has the file, or the reason why not, when it is called back") {
  DataSet data;
  data.add("a/1", 108'000);
  auto store = data.open(0);
  const EntryId entry = entry_of(*store, "a/1");
  drop_from_page_cache(data.dir.path() / "a/1");  // else every caller gets it on its own thread
  std::promise<std::thread::id> answered_on;
  store->read_async(
      entry,
      [&](const Result<View>& view) {
        CHECK(text_of(*view) == data.contents[0]);
        answered_on.set_value(std::this_thread::get_id());
      },
      ReadHint::kNowHere);
  CHECK(answered_on.get_future().get() == std::this_thread::get_id());

  fs::remove(data.dir.path() / "a/1");
  std::promise<Result<View>> failed;
  store->read_async(
      entry, [&](Result<View> view) { failed.set_value(std::move(view)); }, ReadHint::kNowHere);
  CHECK(failed.get_future().get().error().code == ErrorCode::kNotFound);
}

TEST_CASE("a caller that may wait does not where somebody else watches the reads") {
  DataSet data;
  data.add("a/1", 108'000);
  auto store =
      Store::open({.source = data.dir.path(), .make_source_engine = [] { return headrace::io::open_engine({}); }});
  REQUIRE(store.has_value());
  std::promise<std::thread::id> answered_on;
  (*store)->read_async(
      entry_of(**store, "a/1"), [&](const Result<View>&) { answered_on.set_value(std::this_thread::get_id()); },
      ReadHint::kNowHere);
  CHECK(answered_on.get_future().get() != std::this_thread::get_id());
}

TEST_CASE("closing ends what is in flight and waiting") {
  DataSet data;
  for (int i = 0; i < 200; ++i) data.add("a/" + std::to_string(i), 200'000);
  for (int round = 0; round < 5; ++round) {
    auto store = data.open(2 << 20);
    std::atomic<int> ended = 0;
    for (EntryId entry = 0; entry < store->catalog().entry_count(); ++entry) {
      if (store->catalog().is_file(entry)) store->read_async(entry, [&](const Result<View>&) { ++ended; });
    }
    store.reset();
    CHECK(ended == 200);
  }
}

}  // namespace

}  // namespace store_test
