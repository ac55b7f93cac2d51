// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/sweep.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/source/source.h"
#include "headrace/cache/store.h"
#include "headrace/io/mutex.h"

#include "support/engine_around.h"
#include "support/temp_dir.h"

namespace sweep_test {
namespace {

using headrace::cache::kSweepBatch;
using headrace::cache::kSweepInFlight;
using headrace::cache::ReadHint;
using headrace::cache::Result;
using headrace::cache::SampleIndex;
using headrace::cache::SeekMeter;
using headrace::cache::SourceRead;
using headrace::cache::Store;
using headrace::cache::Sweep;
using headrace::cache::View;
using headrace::io::Engine;
using headrace::test::EngineAround;
using headrace::test::TempDir;
using namespace std::chrono_literals;

// A disk that has finished nothing until it is told to. A read's place is where its range begins.
class Disk {
 public:
  SourceRead& read_at(std::uint64_t place) {
    auto& read = reads_.emplace_back(std::make_unique<SourceRead>());
    read->range = {place, 1};
    return *read;
  }
  void issue(const SourceRead& read) {
    headrace::io::MutexLock lock(mutex_);
    issued_.push_back(read.range.offset);
    changed_.notify_all();
  }
  // The places of the first `count` reads issued; fails the test when they do not come.
  std::vector<std::uint64_t> wait_for(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    headrace::io::MutexLock lock(mutex_);
    while (issued_.size() < count) REQUIRE(changed_.wait_until(lock, deadline));
    return issued_;
  }
  std::optional<std::uint64_t> place_of(const SourceRead& read) {
    ++look_ups;
    return read.range.offset == kNowhere ? std::nullopt : std::optional(read.range.offset);
  }
  Sweep::Options options() {
    return {.disk_offset_of = [this](const SourceRead& read) { return place_of(read); },
            .issue = [this](SourceRead& read) { issue(read); },
            .on_verdict = [this](bool seeks) { verdicts.push_back(seeks); },
            .seeks_at_first = true};
  }

  static constexpr std::uint64_t kNowhere = 999'999;
  std::atomic<int> look_ups = 0;
  std::vector<bool> verdicts;  // of the thread that calls on_done()

 private:
  std::vector<std::unique_ptr<SourceRead>> reads_;
  headrace::io::Mutex mutex_;
  headrace::io::CondVar changed_;
  std::vector<std::uint64_t> issued_ HEADRACE_GUARDED_BY(mutex_);
};

void fill(Sweep& sweep, Disk& disk) {
  for (std::size_t i = 0; i < kSweepInFlight; ++i) sweep.add(disk.read_at(0));
  disk.wait_for(kSweepInFlight);
}

std::vector<std::uint64_t> shuffled(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> places(count);
  std::iota(places.begin(), places.end(), first);
  std::shuffle(places.begin(), places.end(), std::mt19937_64(7));
  return places;
}

TEST_CASE("a busy hard disk gets the reads that wait in the order of their places") {
  Disk disk;
  Sweep sweep(disk.options());
  fill(sweep, disk);
  const std::vector<std::uint64_t> places = shuffled(100, kSweepBatch);
  for (const std::uint64_t place : places) sweep.add(disk.read_at(place));
  for (std::size_t i = 0; i < kSweepInFlight; ++i) sweep.on_done();
  disk.wait_for(2 * kSweepInFlight);  // half of the batch: the disk is full again
  for (std::size_t i = 0; i < kSweepInFlight; ++i) sweep.on_done();
  const std::vector<std::uint64_t> issued = disk.wait_for(kSweepInFlight + kSweepBatch);
  CHECK(std::is_sorted(issued.begin() + kSweepInFlight, issued.end()));
  CHECK(sweep.sorts());
}

TEST_CASE("a read that somebody waits for by now is issued at once, from the batch or from behind it") {
  Disk disk;
  Sweep sweep(disk.options());
  fill(sweep, disk);
  std::atomic<bool> wanted = false;
  SourceRead& in_batch = disk.read_at(50);
  SourceRead& behind = disk.read_at(60);
  in_batch.wanted = behind.wanted = &wanted;
  for (const std::uint64_t place : shuffled(1000, kSweepBatch - 1)) sweep.add(disk.read_at(place));
  sweep.add(in_batch);
  sweep.on_done();
  disk.wait_for(kSweepInFlight + 1);  // the batch is made
  sweep.add(disk.read_at(70));
  sweep.add(behind);
  sweep.hurry();
  wanted = true;
  const std::size_t before = disk.wait_for(kSweepInFlight + 1).size();
  sweep.hurry();
  const std::vector<std::uint64_t> issued = disk.wait_for(before + 1);
  CHECK(std::ranges::find(issued, 60U) != issued.end());
  CHECK(std::ranges::find(issued, 50U) != issued.end());  // with it, or first of the batch
  CHECK(std::ranges::find(issued, 70U) == issued.end());
}

TEST_CASE("a read that somebody waits for already when it is added does not wait in the sweep") {
  Disk disk;
  Sweep sweep(disk.options());
  fill(sweep, disk);
  const std::atomic<bool> wanted = true;
  SourceRead& late = disk.read_at(60);
  late.wanted = &wanted;
  sweep.add(disk.read_at(50));
  sweep.add(late);
  const std::vector<std::uint64_t> issued = disk.wait_for(kSweepInFlight + 1);
  CHECK(issued.back() == 60);
}

// What is read ahead does not start until somebody is said to wait.
class StartsWhenHurried final : public EngineAround {
 public:
  using EngineAround::EngineAround;
  void submit(headrace::io::Operation& operation) override {
    operation.wanted == nullptr || *operation.wanted ? inner().submit(operation) : held_.push_back(&operation);
  }
  [[nodiscard]] std::size_t waiting() const override { return held_.size(); }
  [[nodiscard]] std::size_t in_flight() const override { return inner().in_flight() + held_.size(); }
  void hurry() override {
    for (headrace::io::Operation* const operation : std::exchange(held_, {})) submit(*operation);
  }

 private:
  std::vector<headrace::io::Operation*> held_;
};

TEST_CASE("who comes to a read ahead that waits for its turn has it started") {
  const TempDir data;
  data.write("a/1.jpg", "one");
  auto store = Store::open({.source = data.path(), .make_source_engine = []() -> Result<std::unique_ptr<Engine>> {
                              return std::make_unique<StartsWhenHurried>(std::move(*headrace::io::open_engine({})));
                            }});
  REQUIRE(store.has_value());
  std::promise<bool> came_ahead;
  const auto entry = *(*store)->catalog().find("a/1.jpg");
  (*store)->read_async(
      entry, [&](const Result<View>& view) { came_ahead.set_value(view.has_value()); }, ReadHint::kAhead);
  CHECK((*store)->read(entry)->bytes().size() == 3);
  CHECK(came_ahead.get_future().get());
}

TEST_CASE("reads that come later do not push ahead of a batch, however near they lie") {
  Disk disk;
  Sweep sweep(disk.options());
  fill(sweep, disk);
  for (const std::uint64_t place : shuffled(1000, kSweepBatch)) sweep.add(disk.read_at(place));
  for (const std::uint64_t place : {3U, 1U, 2U}) sweep.add(disk.read_at(place));
  for (std::size_t i = 0; i < kSweepInFlight + kSweepBatch; ++i) {
    sweep.on_done();
    disk.wait_for(std::min(kSweepInFlight + i + 1, kSweepInFlight + kSweepBatch + 3));
  }
  const std::vector<std::uint64_t> issued = disk.wait_for(kSweepInFlight + kSweepBatch + 3);
  CHECK(std::is_sorted(issued.begin() + kSweepInFlight, issued.end() - 3));
  CHECK(std::vector(issued.end() - 3, issued.end()) == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("reads whose place is not known go first") {
  Disk disk;
  Sweep sweep(disk.options());
  fill(sweep, disk);
  for (const std::uint64_t place : {std::uint64_t{5}, Disk::kNowhere, std::uint64_t{4}}) {
    sweep.add(disk.read_at(place));
  }
  for (std::size_t i = 0; i < kSweepInFlight; ++i) sweep.on_done();
  const std::vector<std::uint64_t> issued = disk.wait_for(kSweepInFlight + 3);
  CHECK(std::vector(issued.end() - 3, issued.end()) == std::vector<std::uint64_t>{Disk::kNowhere, 4, 5});
}

TEST_CASE("closing issues what waits") {
  Disk disk;
  Sweep sweep(disk.options());
  fill(sweep, disk);
  for (const std::uint64_t place : shuffled(100, 2 * kSweepBatch)) sweep.add(disk.read_at(place));
  sweep.close();
  CHECK(disk.wait_for(kSweepInFlight + 2 * kSweepBatch).size() == kSweepInFlight + 2 * kSweepBatch);
}

TEST_CASE("a disk that answers faster than a head moves is no hard disk, until it slows down") {
  SeekMeter meter(false);
  SeekMeter::TimePoint now = {};
  const auto read = [&](int count, std::chrono::microseconds each) {
    for (int i = 0; i < count; ++i) meter.on_read(now += each, kSweepInFlight - 1);
  };
  CHECK_FALSE(meter.seeks());
  read(300, 8ms);
  CHECK(meter.seeks());
  read(300, 100us);
  CHECK_FALSE(meter.seeks());
  read(300, 8ms);
  CHECK(meter.seeks());
}

TEST_CASE("a disk that is asked for little is not taken for a slow one, nor for a fast one") {
  for (const bool seeks : {false, true}) {
    SeekMeter meter(seeks);
    SeekMeter::TimePoint now = {};
    for (int i = 0; i < 300; ++i) meter.on_read(now += 8ms, i % 4);
    for (int i = 0; i < 300; ++i) meter.on_read(now += 100us, i % 4);
    CHECK(meter.seeks() == seeks);
  }
}

TEST_CASE("the pauses between bursts of reads do not make a disk a slow one") {
  SeekMeter meter(false);
  SeekMeter::TimePoint now = {};
  for (int burst = 0; burst < 20; ++burst) {
    for (std::size_t left = kSweepInFlight; left-- > 0;) meter.on_read(now += 100us, left);
    now += 50ms;
  }
  CHECK_FALSE(meter.seeks());
}

TEST_CASE("reads of a disk that was not slow yet are issued as they come, without a look-up") {
  Disk disk;
  Sweep::Options options = disk.options();
  options.seeks_at_first = false;
  Sweep sweep(options);
  const std::vector<std::uint64_t> places = shuffled(100, 2 * kSweepInFlight);
  for (const std::uint64_t place : places) sweep.add(disk.read_at(place));
  CHECK(disk.wait_for(places.size()) == places);
  CHECK(disk.look_ups == 0);
  CHECK_FALSE(sweep.sorts());
}

TEST_CASE("who gives a disk its reads is told once that it does not seek") {
  Disk disk;
  Sweep sweep(disk.options());
  fill(sweep, disk);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  std::size_t issued = kSweepInFlight;
  while (disk.verdicts.empty() && std::chrono::steady_clock::now() < deadline) {
    sweep.on_done();
    sweep.add(disk.read_at(0));
    disk.wait_for(++issued);
  }
  for (std::size_t i = 0; i < kSweepInFlight; ++i) sweep.on_done();
  CHECK(disk.verdicts == std::vector<bool>{false});
}

TEST_CASE("a store gives a source that is a hard disk few reads at once") {
  const TempDir source;
  source.write("a/1", "content");
  for (const bool rotational : {true, false}) {
    auto store = Store::open({.source = source.path(), .ram_bytes = 16 << 20, .source_rotational = rotational});
    REQUIRE(store.has_value());
    const unsigned depth_max = (*store)->stats().engine.queue_depth_max;
    CHECK((rotational ? depth_max == kSweepInFlight : depth_max > kSweepInFlight));
  }
}

// Remembers the first that it was told of its device.
class Told final : public EngineAround {
 public:
  enum class First : std::uint8_t { kNothing, kSeeks, kDoesNotSeek };

  Told(std::unique_ptr<Engine> inside, std::atomic<First>& first) : EngineAround(std::move(inside)), first_(first) {}
  void set_rotational(bool rotational) override {
    First nothing = First::kNothing;
    first_.compare_exchange_strong(nothing, rotational ? First::kSeeks : First::kDoesNotSeek);
  }

 private:
  std::atomic<First>& first_;
};

TEST_CASE("the engine of a source is told when reads ahead show that its disk does not seek") {
  const TempDir source;
  constexpr SampleIndex kFiles = 256;
  for (SampleIndex i = 0; i < kFiles; ++i) source.write("a/" + std::to_string(i), "content");
  std::atomic<Told::First> told = Told::First::kNothing;
  const auto make_told = [&told] {
    return headrace::io::open_engine({}).map([&told](std::unique_ptr<Engine> inside) -> std::unique_ptr<Engine> {
      return std::make_unique<Told>(std::move(inside), told);
    });
  };
  // No RAM budget: nothing stays, so that every read is one of the source.
  auto store = Store::open({.source = source.path(), .source_rotational = true, .make_source_engine = make_told});
  REQUIRE(store.has_value());
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (told == Told::First::kNothing && std::chrono::steady_clock::now() < deadline) {
    std::promise<void> all_read;
    std::atomic<SampleIndex> left = kFiles;
    const auto on_read = [&](const auto&) {
      if (--left == 0) all_read.set_value();
    };
    for (SampleIndex i = 0; i < kFiles; ++i) {
      (*store)->read_async((*store)->catalog().sample_entry(i), on_read, ReadHint::kAhead);
    }
    all_read.get_future().wait();
  }
  CHECK(told == Told::First::kDoesNotSeek);
}

TEST_CASE("a store whose source is a hard disk reads ahead right, says so, and closes with reads waiting") {
  TempDir source;
  constexpr SampleIndex kFiles = 200;
  for (SampleIndex i = 0; i < kFiles; ++i)
    source.write("a/" + std::to_string(i), std::string(5000, char('a' + i % 26)));
  auto opened =
      Store::open({.source = source.path(), .ram_bytes = 16 << 20, .source_rotational = true, .make_source_engine = [] {
                     return headrace::io::open_engine({});
                   }});  // which the page cache does not spare any read
  REQUIRE(opened.has_value());
  std::unique_ptr<Store> store = std::move(*opened);
  CHECK(store->stats().tiers.back().placement.find("hard disk") != std::string::npos);

  std::vector<std::future<bool>> ends;
  const auto read_ahead = [&](SampleIndex sample) {
    auto end = std::make_shared<std::promise<bool>>();
    ends.push_back(end->get_future());
    store->read_async(
        store->catalog().sample_entry(sample), [end](const Result<View>& view) { end->set_value(view.has_value()); },
        ReadHint::kAheadAndKeep);
  };
  for (SampleIndex i = 0; i < kFiles / 2; ++i) read_ahead(i);
  for (auto& end : ends) CHECK(end.get());
  for (SampleIndex i = 0; i < kFiles / 2; ++i) {
    const auto entry = store->catalog().sample_entry(i);
    const auto view = store->read(entry);
    REQUIRE(view.has_value());
    const auto letter = char('a' + std::stoi(store->catalog().path(entry).substr(2)) % 26);
    CHECK(std::all_of(view->bytes().begin(), view->bytes().end(), [&](std::byte b) { return char(b) == letter; }));
  }
  ends.clear();
  for (SampleIndex i = kFiles / 2; i < kFiles; ++i) read_ahead(i);
  store.reset();
  for (auto& end : ends) static_cast<void>(end.get());  // each has ended, one way or the other
}

}  // namespace

}  // namespace sweep_test
