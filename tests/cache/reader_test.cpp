// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/reader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/cache/record_order.h"
#include "headrace/io/engine.h"
#include "headrace/io/unique_fd.h"

#include "support/engine_around.h"
#include "support/temp_dir.h"

namespace reader_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::EntryId;
using headrace::cache::make_order;
using headrace::cache::Order;
using headrace::cache::Pack;
using headrace::cache::Reader;
using headrace::cache::ReaderOptions;
using headrace::cache::RecordSet;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreStats;
using headrace::cache::View;
using headrace::io::ErrorCode;
using headrace::test::as_text;
using headrace::test::EngineAround;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

std::string text_of(const View& view) {
  return {reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size()};
}

// Starts no more reads than it is told to, in the order in which they were submitted.
class HeldBack final : public EngineAround {
 public:
  using Operation = headrace::io::Operation;

  explicit HeldBack(std::unique_ptr<Engine> inside) : EngineAround(std::move(inside)) {}
  void let_go(std::size_t reads) {
    allowed_.store(reads);
    wake();
  }
  void submit(Operation& operation) override {
    waiting_.push_back(&operation);
    submitted_.fetch_add(1);
  }
  [[nodiscard]] std::size_t submitted() const { return submitted_.load(); }
  void wait(std::chrono::steady_clock::time_point deadline) override {
    for (; started_ < std::min(allowed_.load(), waiting_.size()); ++started_) inner().submit(*waiting_[started_]);
    inner().wait(deadline);
  }
  [[nodiscard]] std::size_t in_flight() const override { return inner().in_flight() + waiting_.size() - started_; }

 private:
  std::vector<Operation*> waiting_;
  std::size_t started_ = 0;
  std::atomic<std::size_t> allowed_ = 0;
  std::atomic<std::size_t> submitted_ = 0;
};

class Fixture {
 public:
  Fixture(std::size_t count, std::uint64_t ram_bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      contents.emplace_back(as_text(pattern_bytes(5'000 + i * 131 % 30'000, i)));
      source.write("class" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg", contents.back());
    }
    auto opened = Store::open({.source = source.path(), .ram_bytes = ram_bytes});
    REQUIRE(opened.has_value());
    store = std::move(*opened);
    auto made = make_order("torch-distributed:seed=3", {.sample_count = count, .find_sample = {}});
    REQUIRE(made.has_value());
    order = std::move(*made);
  }
  [[nodiscard]] std::unique_ptr<Reader> open(ReaderOptions options) const {
    auto reader = Reader::open(*store, *order, options);
    REQUIRE_MESSAGE(reader.has_value(), reader.error().message());
    return std::move(*reader);
  }
  [[nodiscard]] const std::string& content_of(EntryId entry) const {
    return contents[std::stoul(fs::path(store->catalog().path(entry)).stem())];
  }
  // Reads to the end, checking order and bytes; how many samples.
  std::size_t drain(Reader& reader) const {
    std::size_t count = 0;
    std::vector<SampleIndex> expected;
    std::uint64_t epoch = UINT64_MAX;
    while (auto sample = reader.next()) {
      if (sample->epoch != epoch) {
        epoch = sample->epoch;
        expected = *order->epoch(epoch);
      }
      REQUIRE(sample->index == expected[sample->position]);
      REQUIRE(sample->entry == store->catalog().sample_entry(sample->index));
      REQUIRE_MESSAGE(sample->bytes.has_value(), sample->bytes.error().message());
      REQUIRE(text_of(*sample->bytes) == content_of(sample->entry));
      ++count;
    }
    return count;
  }

  TempDir source;
  std::vector<std::string> contents;
  std::unique_ptr<Store> store;
  std::unique_ptr<Order> order;
};

TEST_CASE("two epochs come in the order given, byte for byte") {
  const Fixture fixture(200, 64 << 20);
  CHECK(fixture.drain(*fixture.open({.epochs = 2})) == 400);
  CHECK(fixture.store->stats().tiers.back().hits == 200);  // all of it fits: one fetch per file
}

TEST_CASE("epochs are read with no RAM budget") {
  const Fixture fixture(200, 0);
  CHECK(fixture.drain(*fixture.open({.epochs = 2, .window_bytes = 256 << 10})) == 400);
}

TEST_CASE("a budget of half the data set hits half of the second epoch") {
  const Fixture fixture(400, 4 << 20);  // of about 8 MB
  auto reader = fixture.open({.epochs = 3, .window_bytes = 512 << 10});
  CHECK(fixture.drain(*reader) == 1200);
  const StoreStats stats = fixture.store->stats();
  CHECK(stats.tiers.front().used_bytes <= (4 << 20));
  // Never-evict reaches the fraction held; the window takes its part of the budget.
  CHECK(stats.tiers.back().hits < 400 + 2 * 400 * 7 / 10);
}

TEST_CASE("a reader resumes in the middle of an epoch") {
  const Fixture fixture(100, 8 << 20);
  auto reader = fixture.open({.first_epoch = 4, .epochs = 1, .first_position = 60});
  const auto expected = *fixture.order->epoch(4);
  auto first = reader->next();
  REQUIRE(first.has_value());
  CHECK(first->position == 60);
  CHECK(first->index == expected[60]);
  CHECK(fixture.drain(*reader) == 39);
}

TEST_CASE("a rank that never has a sample comes to an end, in epochs without end as well") {
  Fixture fixture(5, 64 << 20);
  const auto use = [&](const std::string& spec) {
    auto made = make_order(spec, {.sample_count = 5, .find_sample = nullptr});
    REQUIRE_MESSAGE(made.has_value(), made.error().message());
    fixture.order = std::move(*made);
  };
  use("torch-distributed:seed=3,drop_last=1,replicas=6,rank=0");
  auto reader = fixture.open({.epochs = UINT64_MAX});
  CHECK_FALSE(reader->next().has_value());
  reader->cancel();
}

TEST_CASE("several consumers get every sample once") {
  const Fixture fixture(300, 2 << 20);
  auto reader = fixture.open({.epochs = 2});
  std::mutex mutex;
  std::vector<int> seen(300);
  std::vector<std::thread> consumers;
  consumers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    consumers.emplace_back([&] {
      while (auto sample = reader->next()) {
        const std::lock_guard lock(mutex);
        if (sample->bytes && text_of(*sample->bytes) == fixture.content_of(sample->entry)) ++seen[sample->index];
      }
    });
  }
  for (std::thread& consumer : consumers) consumer.join();
  CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 2; }));
}

TEST_CASE("one unreadable sample is an error in its place and the rest goes on") {
  const Fixture fixture(50, 8 << 20);
  fs::remove(fixture.source.path() / "class0/0.jpg");
  auto reader = fixture.open({.epochs = 1});
  int failed = 0;
  int good = 0;
  while (auto sample = reader->next()) {
    sample->bytes ? ++good : ++failed;
    if (!sample->bytes) CHECK(sample->bytes.error().code == ErrorCode::kNotFound);
  }
  CHECK(failed == 1);
  CHECK(good == 49);
}

TEST_CASE("a reader that waits for a sample gets it while others are still on their way") {
  const TempDir source;
  source.write("a", "first");
  source.write("b", "second");
  HeldBack* engine = nullptr;
  auto store = Store::open({.source = source.path(), .ram_bytes = 16 << 20, .make_source_engine = [&engine] {
                              auto made = std::make_unique<HeldBack>(std::move(*headrace::io::open_engine({})));
                              engine = made.get();
                              return headrace::io::Result<std::unique_ptr<headrace::io::Engine>>(std::move(made));
                            }});
  REQUIRE(store.has_value());
  const auto order = make_order("sequential", {.sample_count = 2, .find_sample = {}});
  REQUIRE(order.has_value());
  auto reader = Reader::open(**store, **order, {});
  REQUIRE(reader.has_value());
  auto first = std::async(std::launch::async, [&] { return text_of(*(*reader)->next()->bytes); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely it sleeps by now, which is the case meant
  engine->let_go(1);
  const bool arrived = first.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  engine->let_go(2);
  CHECK(arrived);
  CHECK(first.get() == "first");
  CHECK(text_of(*(*reader)->next()->bytes) == "second");
}

TEST_CASE("of a budget that holds all samples not all are asked for at once, and all come") {
  constexpr std::size_t kFiles = 3000;
  constexpr std::size_t kMost = 2048;
  const TempDir source;
  for (std::size_t i = 0; i < kFiles; ++i) source.write("class/" + std::to_string(i) + ".jpg", std::to_string(i));
  HeldBack* engine = nullptr;
  const auto store = Store::open({.source = source.path(), .ram_bytes = 64 << 20, .make_source_engine = [&] {
                                    auto made = std::make_unique<HeldBack>(std::move(*headrace::io::open_engine({})));
                                    engine = made.get();
                                    return headrace::io::Result<std::unique_ptr<headrace::io::Engine>>(std::move(made));
                                  }});
  REQUIRE(store.has_value());
  const auto order = make_order("torch-distributed:seed=3", {.sample_count = kFiles, .find_sample = {}});
  REQUIRE(order.has_value());
  const auto reader = Reader::open(**store, **order, {.epochs = 1});
  REQUIRE(reader.has_value());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (engine->submitted() < kMost && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // if there were more, they would come by now
  CHECK(engine->submitted() == kMost);
  engine->let_go(SIZE_MAX);
  std::size_t count = 0;
  while (const auto sample = (*reader)->next()) {
    REQUIRE(sample->bytes.has_value());
    count += 1;
  }
  CHECK(count == kFiles);
}

TEST_CASE("cancelling ends readers that wait, and a reader may be left in the middle") {
  const Fixture fixture(200, 2 << 20);
  {
    auto reader = fixture.open({.epochs = 100});
    std::thread consumer([&] {
      while (reader->next()) continue;
    });
    reader->cancel();
    consumer.join();
    CHECK_FALSE(reader->next().has_value());
  }
  {
    auto reader = fixture.open({.epochs = 2});
    for (int i = 0; i < 20; ++i) static_cast<void>(reader->next());
  }
  // What the readers asked to keep is theirs no more: another one finds room.
  CHECK(fixture.drain(*fixture.open({.epochs = 1})) == 200);
}

TEST_CASE("a consumer that holds on to many views does not stop the reader") {
  const Fixture fixture(200, 4 << 20);
  auto reader = fixture.open({.epochs = 2});
  std::vector<View> batch;
  std::size_t count = 0;
  while (auto sample = reader->next()) {
    REQUIRE(sample->bytes.has_value());
    batch.push_back(std::move(*sample->bytes));
    if (batch.size() == 64) batch.clear();  // about 1.3 MB
    ++count;
  }
  CHECK(count == 400);
  batch.clear();
}

TEST_CASE("options that make no sense are refused") {
  const Fixture fixture(10, 1 << 20);
  CHECK(Reader::open(*fixture.store, *fixture.order, {.epochs = 0}).error().code == ErrorCode::kInvalidArgument);
  CHECK(Reader::open(*fixture.store, *fixture.order, {.first_position = 11}).error().code ==
        ErrorCode::kInvalidArgument);
}

// Two packs of rows of 5 000 bytes, of which the first is read in pieces of the source and the second as a whole.
class PackFixture {
 public:
  static constexpr std::uint64_t kRowBytes = 5000;
  static constexpr std::uint64_t kFirstRows = 2000;
  static constexpr std::uint64_t kRows = kFirstRows + 100;

  explicit PackFixture(std::uint64_t ram_bytes) {
    for (std::uint64_t row = 0; row < kRows; ++row) rows.emplace_back(as_text(pattern_bytes(kRowBytes, row)));
    write("a.bin", 0, kFirstRows);
    write("b.bin", kFirstRows, kRows);
    auto opened = Store::open({.source = source.path(), .ram_bytes = ram_bytes});
    REQUIRE(opened.has_value());
    store = std::move(*opened);
    std::vector<Pack> packs;
    for (const char* name : {"a.bin", "b.bin"}) {
      const headrace::io::UniqueFd folder(::open(source.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      auto map = headrace::cache::open_record_map(folder.get(), name, "stride=5000");
      REQUIRE_MESSAGE(map.has_value(), map.error().message());
      packs.push_back({.entry = store->catalog().find(name).value(), .map = std::move(*map)});
    }
    records = std::make_shared<const RecordSet>(RecordSet::make(std::move(packs)).value());
    order = headrace::cache::make_record_order("torch-random:seed=3", records, true).value();
  }
  void write(const char* name, std::uint64_t first, std::uint64_t end) const {
    std::string bytes;
    for (std::uint64_t row = first; row < end; ++row) bytes += rows[row];
    source.write(name, bytes);
  }

  TempDir source;
  std::vector<std::string> rows;
  std::unique_ptr<Store> store;
  std::shared_ptr<const RecordSet> records;
  std::unique_ptr<Order> order;
};

TEST_CASE("a reader of records hands out each record of several packs in order, epoch after epoch") {
  for (const std::uint64_t ram_bytes : {std::uint64_t{0}, std::uint64_t{4} << 20, std::uint64_t{64} << 20}) {
    CAPTURE(ram_bytes);
    const PackFixture fixture(ram_bytes);
    auto reader = Reader::open(*fixture.store, *fixture.order, {.epochs = 2, .records = fixture.records}).value();
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      const std::vector<SampleIndex> samples = fixture.order->epoch(epoch).value();
      for (const SampleIndex record : samples) {
        const auto sample = reader->next();
        REQUIRE(sample.has_value());
        REQUIRE(sample->index == record);
        REQUIRE(sample->entry == fixture.records->entry(record));
        REQUIRE_MESSAGE(sample->bytes.has_value(), sample->bytes.error().message());
        REQUIRE(text_of(*sample->bytes) == fixture.rows[record]);
      }
    }
    CHECK_FALSE(reader->next().has_value());
    CHECK(reader->state().late + reader->state().hits > PackFixture::kRows);  // read ahead in both epochs
  }
}

TEST_CASE("a record of a pack that has changed meanwhile is an error, and none of another version's bytes") {
  const PackFixture fixture(std::uint64_t{12} << 20);
  auto reader =
      Reader::open(*fixture.store, *fixture.order, {.window_bytes = 64 << 10, .records = fixture.records}).value();
  // At one go: a read ahead that found no file would be told another error.
  fs::rename(fixture.source.write("a.bin.new", std::string(PackFixture::kFirstRows * PackFixture::kRowBytes, 'x')),
             fixture.source.path() / "a.bin");
  std::uint64_t stale = 0;
  for (std::uint64_t i = 0; i < PackFixture::kRows; ++i) {
    const auto sample = reader->next();
    REQUIRE(sample.has_value());
    if (sample->bytes) {
      REQUIRE(text_of(*sample->bytes) == fixture.rows[sample->index]);
    } else {
      REQUIRE(sample->bytes.error().code == ErrorCode::kStale);
      ++stale;
    }
  }
  CHECK(stale > PackFixture::kFirstRows / 2);
  const auto again = Reader::open(*fixture.store, *fixture.order, {.records = fixture.records});
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == ErrorCode::kStale);
}

TEST_CASE("an order over something else than the records is refused") {
  const PackFixture fixture(0);
  const auto larger = make_order("sequential", {.sample_count = PackFixture::kRows + 1}).value();
  const auto reader = Reader::open(*fixture.store, *larger, {.records = fixture.records});
  REQUIRE_FALSE(reader.has_value());
  CHECK(reader.error().code == ErrorCode::kInvalidArgument);
}

}  // namespace

}  // namespace reader_test
