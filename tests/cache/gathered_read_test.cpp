// SPDX-License-Identifier: Apache-2.0
// Reads that span chunks, many at once, in as little memory as is allowed: all of them end, with the right bytes.
#include "headrace/cache/store/gathered_read.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/store.h"
#include "headrace/io/engine.h"

#include "support/fault_engine.h"
#include "support/temp_dir.h"

namespace gathered_read_test {
namespace {

using headrace::cache::EntryId;
using headrace::cache::footprint_bytes;
using headrace::cache::kChunkBytes;
using headrace::cache::ReadHint;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::View;
using headrace::io::Engine;
using headrace::io::ErrorCode;
using headrace::io::Result;
using headrace::test::as_text;
using headrace::test::open_fault_engine;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::uint64_t kMiB = 1 << 20;

struct Fixture {
  explicit Fixture(const std::vector<std::size_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      contents.push_back(pattern_bytes(sizes[i], i));
      source.write("class/" + std::string(1, static_cast<char>('a' + i)) + ".bin", as_text(contents.back()));
    }
    options.source = source.path();
    options.catalog.listing = headrace::cache::ListingRule::kSorted;
  }

  [[nodiscard]] std::unique_ptr<Store> open(std::uint64_t ram_bytes) {
    options.ram_bytes = ram_bytes;
    auto store = Store::open(options);
    REQUIRE(store.has_value());
    REQUIRE((*store)->catalog().sample_count() == contents.size());
    return std::move(*store);
  }

  // Whether the bytes are those of the file from `offset` on.
  [[nodiscard]] bool matches(const View& view, std::size_t file, std::uint64_t offset, std::uint64_t length) const {
    const std::span<const std::byte> expected = std::span(contents[file]).subspan(offset, length);
    return view.bytes().size() == expected.size() &&
           (expected.empty() || std::memcmp(view.bytes().data(), expected.data(), expected.size()) == 0);
  }

  std::vector<std::vector<std::byte>> contents;
  TempDir source;
  TempDir scratch;
  StoreOptions options;
};

std::future<Result<View>> begin_read(Store& store, SampleIndex sample, ReadHint hint = ReadHint::kNow) {
  auto promise = std::make_shared<std::promise<Result<View>>>();
  store.read_async(
      store.catalog().sample_entry(sample), [promise](Result<View> view) { promise->set_value(std::move(view)); },
      hint);
  return promise->get_future();
}

TEST_CASE("two reads whose targets fill the memory wait for each other's end, not for ever") {
  Fixture fixture({20 * kMiB, 20 * kMiB});
  const std::unique_ptr<Store> store = fixture.open(42 * kMiB);
  std::vector<std::future<Result<View>>> reads;
  for (SampleIndex sample = 0; sample < 2; ++sample) reads.push_back(begin_read(*store, sample));
  for (SampleIndex sample = 0; sample < 2; ++sample) {
    const Result<View> view = reads[sample].get();
    REQUIRE(view.has_value());
    CHECK(fixture.matches(*view, sample, 0, 20 * kMiB));
  }
}

TEST_CASE("a read ahead of a file in chunks that waits for memory is one for now once somebody waits for it") {
  Fixture fixture({7 * kMiB, 7 * kMiB, 7 * kMiB, 7 * kMiB, 12 * kMiB, 1000});
  const std::unique_ptr<Store> store = fixture.open(32 * kMiB);
  for (SampleIndex kept = 0; kept < 4; ++kept) REQUIRE(begin_read(*store, kept, ReadHint::kAheadAndKeep).get());
  std::future<Result<View>> ahead = begin_read(*store, 4, ReadHint::kAhead);
  store->hurry(store->catalog().sample_entry(4));
  // Others read on meanwhile, so that nothing stands still: then what is kept would go for a read ahead as well.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto is_there = [&] { return ahead.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  while (!is_there() && std::chrono::steady_clock::now() < deadline) {
    REQUIRE(begin_read(*store, 5).get());
    store->drop(store->catalog().sample_entry(5));
  }
  CHECK(is_there());
  for (SampleIndex kept = 0; kept < 4; ++kept) store->release(store->catalog().sample_entry(kept));
  const Result<View> view = ahead.get();
  REQUIRE(view.has_value());
  CHECK(fixture.matches(*view, 4, 0, 12 * kMiB));
}

TEST_CASE("a file in chunks needs room for itself and one chunk, and is refused at once below that") {
  Fixture fixture({12 * kMiB});
  const std::uint64_t least = footprint_bytes(12 * kMiB) + footprint_bytes(kChunkBytes);
  {
    const std::unique_ptr<Store> store = fixture.open(least);
    const Result<View> view = begin_read(*store, 0).get();
    REQUIRE(view.has_value());
    CHECK(fixture.matches(*view, 0, 0, 12 * kMiB));
  }
  const std::unique_ptr<Store> store = fixture.open(least - 1);
  const Result<View> view = begin_read(*store, 0).get();
  REQUIRE_FALSE(view.has_value());
  CHECK(view.error().code == ErrorCode::kNoSpace);
}

TEST_CASE("a large file that cannot be read counts as one read that failed, and a range of it as another") {
  Fixture fixture({12 * kMiB});
  const std::unique_ptr<Store> store = fixture.open(64 * kMiB);
  REQUIRE(std::filesystem::remove(fixture.source.path() / "class/a.bin"));
  CHECK_FALSE(begin_read(*store, 0).get().has_value());
  CHECK(store->stats().failures == 1);
  std::promise<bool> read;
  store->read_range_async(store->catalog().sample_entry(0), 5 * kMiB, 1000,
                          [&](const Result<View>& view) { read.set_value(view.has_value()); });
  CHECK_FALSE(read.get_future().get());
  CHECK(store->stats().failures == 2);
}

TEST_CASE("where there is memory, a chunk is fetched once however many reads span it, and stays") {
  Fixture fixture({12 * kMiB});
  const std::unique_ptr<Store> store = fixture.open(64 * kMiB);
  std::vector<std::future<Result<View>>> reads;
  for (int i = 0; i < 3; ++i) reads.push_back(begin_read(*store, 0));
  for (auto& read : reads) REQUIRE(read.get().has_value());
  CHECK(store->stats().tiers.back().hit_bytes == 12 * kMiB);
  REQUIRE(begin_read(*store, 0).get().has_value());
  CHECK(store->stats().tiers.back().hit_bytes == 12 * kMiB);
}

TEST_CASE("a range that is asked for while others wait for memory is read without its chunk") {
  Fixture fixture({8 * kMiB, 8 * kMiB - 1, 9 * kMiB});
  const std::unique_ptr<Store> store = fixture.open(footprint_bytes(8 * kMiB) + kChunkBytes);  // and no chunk beside it
  std::optional<View> first = *begin_read(*store, 0).get();
  auto waiting = begin_read(*store, 1);
  std::promise<Result<View>> promise;
  constexpr std::uint64_t kOffset = kChunkBytes - 1000;  // across two chunks
  store->read_range_async(store->catalog().sample_entry(2), kOffset, 5000,
                          [&](Result<View> view) { promise.set_value(std::move(view)); });
  first.reset();
  const Result<View> second = waiting.get();
  REQUIRE(second.has_value());
  const Result<View> part = promise.get_future().get();
  REQUIRE(part.has_value());
  CHECK(fixture.matches(*part, 2, kOffset, 5000));
  CHECK(store->stats().tiers.back().hit_bytes < 17 * kMiB);
}

// What is known of one round of the model: everything follows from the seed.
struct Round {
  explicit Round(std::uint64_t seed_in) : seed(seed_in) {
    std::mt19937_64 random(seed);
    constexpr std::size_t kSizes[] = {0, 1, 100'000, 3 * kMiB, 8 * kMiB, 8 * kMiB + 1, 9 * kMiB, 13 * kMiB + 1};
    for (int i = 0; i < 5; ++i) sizes.push_back(kSizes[random() % std::size(kSizes)]);
    readers = 2 + random() % 23;
    has_tier = random() % 3 == 0;
    is_slow = random() % 2 == 0;
    const std::uint64_t largest = *std::ranges::max_element(sizes);
    const std::uint64_t least = footprint_bytes(largest) + footprint_bytes(kChunkBytes);
    // The least that works, nearly as little, or no limit.
    const std::uint64_t more[] = {0, 4096, random() % (4 * kMiB), random() % (40 * kMiB)};
    ram_bytes = seed % 8 == 0 ? 0 : least + more[random() % std::size(more)];
  }

  std::uint64_t seed;
  std::vector<std::size_t> sizes;
  std::size_t readers = 0;
  bool has_tier = false;
  bool is_slow = false;
  std::uint64_t ram_bytes = 0;
};

// Whole files and ranges across borders, for now and ahead, one view at a time.
class ModelReader {
 public:
  ModelReader(const Fixture& fixture, Store& store, std::uint64_t ram_bytes, std::uint64_t seed)
      : fixture_(fixture), store_(store), ram_bytes_(ram_bytes), random_(seed) {}

  // What went wrong; empty: nothing.
  [[nodiscard]] std::string read(int reads) {
    std::string fault;
    for (int i = 0; i < reads && fault.empty(); ++i) fault = read_once();
    return fault;
  }

 private:
  [[nodiscard]] std::string read_once() {
    const auto file = static_cast<SampleIndex>(random_() % fixture_.contents.size());
    const std::uint64_t size = fixture_.contents[file].size();
    const EntryId entry = store_.catalog().sample_entry(file);
    constexpr ReadHint kHints[] = {ReadHint::kNow, ReadHint::kNow, ReadHint::kAhead, ReadHint::kAheadAndKeep};
    const ReadHint hint = kHints[random_() % std::size(kHints)];
    std::uint64_t offset = 0;
    std::uint64_t length = size;
    std::promise<Result<View>> promise;
    const auto done = [&](Result<View> view) { promise.set_value(std::move(view)); };
    if (random_() % 2 == 0 && size > 0) {
      offset = random_() % size;
      length = std::min<std::uint64_t>(size - offset, 1 + random_() % (2 * kMiB));
      store_.read_range_async(entry, offset, length, done, hint);
    } else {
      store_.read_async(entry, done, hint);
    }
    const Result<View> view = promise.get_future().get();
    if (hint == ReadHint::kAheadAndKeep) store_.release(entry);
    if (!view) return view.error().message();
    if (!fixture_.matches(*view, file, offset, length)) return "wrong bytes";
    const std::uint64_t used = store_.stats().tiers.front().used_bytes;
    return ram_bytes_ > 0 && used > ram_bytes_ ? "over the budget: " + std::to_string(used) : "";
  }

  const Fixture& fixture_;
  Store& store_;
  const std::uint64_t ram_bytes_;
  std::mt19937_64 random_;
};

std::vector<std::string> play(const Round& round) {
  Fixture fixture(round.sizes);
  if (round.has_tier) {
    fixture.options.tiers = {
        {.kind = TierKind::kSsd, .path = fixture.scratch.path() / "tier", .budget_bytes = 64 * kMiB}};
  }
  fixture.options.make_source_engine = [&round]() -> Result<std::unique_ptr<Engine>> {
    auto engine = headrace::io::open_engine({});
    if (!engine || !round.is_slow) return engine;
    return std::unique_ptr<Engine>(
        open_fault_engine(std::move(*engine), {.seed = round.seed, .delay_one_in = 2, .reorder = true}));
  };
  const std::unique_ptr<Store> store = fixture.open(round.ram_bytes);
  std::vector<std::string> faults(round.readers);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < round.readers; ++i) {
    threads.emplace_back(
        [&, i] { faults[i] = ModelReader(fixture, *store, round.ram_bytes, round.seed * 100 + i).read(8); });
  }
  threads.clear();
  return faults;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kRounds = 8;  // one without a budget among them; a round takes ten times as long
#else
constexpr std::uint64_t kRounds = 24;
#endif

TEST_CASE("whatever the readers, the sizes and the budget are, every read ends with its bytes") {
  for (std::uint64_t seed = 1; seed <= kRounds; ++seed) {
    const Round round(seed);
    CAPTURE(seed);
    CAPTURE(round.ram_bytes);
    for (const std::string& fault : play(round)) CHECK(fault == "");
  }
}

}  // namespace

}  // namespace gathered_read_test
