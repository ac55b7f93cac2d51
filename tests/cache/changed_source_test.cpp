// SPDX-License-Identifier: Apache-2.0
// A source that changes under its readers: every read gets bytes of one version, and no tier keeps bytes under the
// identity of another one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "headrace/cache/order.h"
#include "headrace/cache/reader.h"
#include "headrace/cache/refresher.h"
#include "headrace/cache/source/young_file.h"
#include "headrace/cache/store.h"
#include "headrace/io/engine.h"

#include "support/engine_around.h"
#include "support/temp_dir.h"

namespace changed_source_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::CatalogChanges;
using headrace::cache::EntryId;
using headrace::cache::Reader;
using headrace::cache::ReadHint;
using headrace::cache::Refresher;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::View;
using headrace::io::Engine;
using headrace::io::ErrorCode;
using headrace::io::Operation;
using headrace::io::Result;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::EngineAround;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::size_t kLarge = 12 << 20;  // three chunks

std::string text_of(const Result<View>& view) {
  if (!view) return "error: " + std::string(headrace::io::name_of(view.error().code));
  return {reinterpret_cast<const char*>(view->bytes().data()), view->bytes().size()};
}

// Calls `before_submit` with the number of each read, from 1 on.
class Watched final : public EngineAround {
 public:
  Watched(std::unique_ptr<Engine> inner, std::function<void(int)> before_submit)
      : EngineAround(std::move(inner)), before_submit_(std::move(before_submit)) {}
  void submit(Operation& operation) override {
    before_submit_(++reads_);
    EngineAround::submit(operation);
  }

 private:
  const std::function<void(int)> before_submit_;
  int reads_ = 0;
};

// One file in a source, and a store with RAM and a disk tier.
class ChangingSource {
 public:
  explicit ChangingSource(std::size_t bytes)
      : bytes_(bytes), before_(as_text(pattern_bytes(bytes, 1))), after_(as_text(pattern_bytes(bytes, 2))) {
    dir_.write("a/f", before_);
    dir_.write("a/other", "is not touched");
    dir_.write("new", after_);
    options.source = dir_.path();
    options.ram_bytes = 64 << 20;
    options.tiers = {{.kind = TierKind::kSsd, .path = places_.path() / "tier", .budget_bytes = 256 << 20}};
    options.catalog_file = places_.path() / "catalog";
  }

  void open() {
    store_.reset();
    store_ = std::move(*Store::open(options));
    entry_ = *store_->catalog().find("a/f");
    store_->set_change_listener([this](const CatalogChanges& changes) {
      for (const CatalogChanges::Changed& each : changes.changed) changes_ += each.entry == entry_ ? 1 : 0;
    });
  }
  void close() { store_.reset(); }
  // From now on the source is read through an engine that is watched, and not through the page cache.
  void watch_reads(std::function<void(int)> before_submit) {
    options.make_source_engine = [before_submit]() -> Result<std::unique_ptr<Engine>> {
      return std::make_unique<Watched>(std::move(*headrace::io::open_engine({})), before_submit);
    };
  }

  void swap() const {
    fs::rename(path("a/f"), path("bak"));
    fs::rename(path("new"), path("a/f"));
  }
  void swap_back() const {
    fs::rename(path("a/f"), path("new"));
    fs::rename(path("bak"), path("a/f"));
  }
  void rewrite_with_same_size_and_mtime() const {
    struct stat info {};
    REQUIRE(::stat(path("a/f").c_str(), &info) == 0);
    dir_.write("a/f", after_);
    const timespec times[2] = {info.st_atim, info.st_mtim};
    REQUIRE(::utimensat(AT_FDCWD, path("a/f").c_str(), times, 0) == 0);
  }
  void refresh() const {
    Refresher refresher(*store_, {});
    while (refresher.state().running) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  [[nodiscard]] Result<View> read() const { return store_->read(entry_); }
  [[nodiscard]] Status warm() const {
    std::promise<Status> done;
    store_->warm(entry_, [&](Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  // What the tiers hold, without the source: by the same reads after RAM has given the file up.
  [[nodiscard]] std::string read_anew() const {
    CHECK(store_->flush());
    store_->drop(entry_);
    return text_of(read());
  }

  [[nodiscard]] fs::path path(const char* name) const { return dir_.path() / name; }
  [[nodiscard]] const TempDir& dir() const { return dir_; }
  [[nodiscard]] Store& store() const { return *store_; }
  [[nodiscard]] EntryId entry() const { return entry_; }
  [[nodiscard]] int changes() const { return changes_.load(); }
  [[nodiscard]] const std::string& before() const { return before_; }
  [[nodiscard]] const std::string& after() const { return after_; }
  [[nodiscard]] std::uint64_t source_reads() const { return store_->stats().tiers.back().hits; }

  StoreOptions options;

 private:
  const std::size_t bytes_;
  const std::string before_;
  const std::string after_;
  TempDir dir_;
  TempDir places_;
  std::unique_ptr<Store> store_;
  EntryId entry_ = 0;
  std::atomic<int> changes_ = 0;
};

}  // namespace

TEST_CASE("a file that is swapped and swapped back leaves nothing of the other in any tier") {
  for (const std::size_t bytes : {std::size_t{5000}, kLarge}) {
    CAPTURE(bytes);
    ChangingSource source(bytes);
    source.open();
    source.swap();
    CHECK(text_of(source.read()) == source.after());
    CHECK(source.changes() == 1);
    REQUIRE(source.warm());
    source.swap_back();
    source.refresh();
    CHECK(source.changes() == 2);
    CHECK(text_of(source.read()) == source.before());
    CHECK(source.read_anew() == source.before());
    source.open();
    CHECK(text_of(source.read()) == source.before());
  }
}

TEST_CASE("a file that is replaced in the middle of a read is read as one version") {
  ChangingSource source(kLarge);
  source.watch_reads([&](int read) {
    if (read == 2) source.swap();
  });
  source.open();
  CHECK(text_of(source.read()) == source.after());
  CHECK(source.changes() == 1);
  CHECK(source.read_anew() == source.after());
}

TEST_CASE("a file that is written in place in the middle of a read is read as one version") {
  ChangingSource source(kLarge);
  source.watch_reads([&](int read) {
    if (read == 3) source.dir().write("a/f", source.after());
  });
  source.open();
  CHECK(text_of(source.read()) == source.after());
  CHECK(source.read_anew() == source.after());
}

TEST_CASE("a chunk of a file that was replaced is never mixed with the chunks that memory holds") {
  ChangingSource source(kLarge);
  source.open();
  std::promise<Result<View>> first;
  source.store().read_range_async(source.entry(), 0, 1000,
                                  [&](Result<View> view) { first.set_value(std::move(view)); });
  CHECK(text_of(first.get_future().get()) == source.before().substr(0, 1000));
  source.swap();
  CHECK(text_of(source.read()) == source.after());
}

TEST_CASE("a read in a large file that has become a small one gets no byte of another place, and leaves none behind") {
  constexpr std::uint64_t kPlace = (9 << 20) + 100;
  ChangingSource source(kLarge);
  const auto read_there = [&] {
    std::promise<std::string> seen;
    source.store().read_range_async(source.entry(), kPlace, 1000,
                                    [&](const Result<View>& view) { seen.set_value(text_of(view)); });
    return seen.get_future().get();
  };
  source.watch_reads([&](int read) {
    if (read != 1) return;
    source.dir().write("a/f", as_text(pattern_bytes(3 << 20, 3)));
    CHECK(source.store().look_at(source.entry()));
  });
  source.open();
  CHECK(read_there() == "error: " + std::string(headrace::io::name_of(ErrorCode::kStale)));
  source.dir().write("a/f", source.after());
  REQUIRE(source.store().look_at(source.entry()));
  CHECK(read_there() == source.after().substr(kPlace, 1000));
}

TEST_CASE("another content of the same size and mtime is served after a refresh, and kept apart in the tier") {
  for (const std::size_t bytes : {std::size_t{5000}, kLarge}) {
    CAPTURE(bytes);
    ChangingSource source(bytes);
    source.open();
    REQUIRE(source.warm());
    CHECK(text_of(source.read()) == source.before());
    source.rewrite_with_same_size_and_mtime();
    source.refresh();
    CHECK(text_of(source.read()) == source.after());
    CHECK(source.read_anew() == source.after());
    source.open();
    source.refresh();
    CHECK(text_of(source.read()) == source.after());
  }
}

TEST_CASE("a file that grew or shrank is read as it is, and the listener hears of it before the reader") {
  for (const ReadHint hint : {ReadHint::kNow, ReadHint::kNowHere, ReadHint::kAhead}) {
    for (const char* content : {"longer than all that was there before", "x"}) {
      CAPTURE(content);
      ChangingSource source(20);
      source.open();
      source.dir().write("a/f", content);
      std::promise<std::pair<std::string, int>> seen;
      source.store().read_async(
          source.entry(),
          [&](const Result<View>& view) {
            seen.set_value({text_of(view), source.changes()});
          },
          hint);
      CHECK(seen.get_future().get() == std::pair<std::string, int>(content, 1));
      CHECK(source.store().identity(source.entry())->size_bytes == std::string(content).size());
    }
  }
}

TEST_CASE("a file that changes each time that it is read ends with kStale, and leaves nothing behind") {
  ChangingSource source(5000);
  int version = 0;
  source.watch_reads(
      [&](int) { source.dir().write("a/f", std::string(6000, static_cast<char>('a' + version++ % 26))); });
  source.open();
  const auto view = source.read();
  REQUIRE_FALSE(view);
  CHECK(view.error().code == ErrorCode::kStale);
  CHECK(version == 3);
  CHECK(source.store().stats().tiers.front().used_bytes == 0);
}

TEST_CASE("a file that was replaced by one with another mode is not shown to who may read the old one") {
  for (const std::size_t bytes : {std::size_t{5000}, kLarge}) {
    CAPTURE(bytes);
    ChangingSource source(bytes);
    source.open();
    source.swap();
    fs::permissions(source.path("a/f"), fs::perms::owner_read);
    const auto refused = source.read();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kStale);
    CHECK((source.store().attributes(source.entry()).mode & 0777) == 0400);
    CHECK(text_of(source.read()) == source.after());  // whoever asks again may have been checked against the new mode
  }
}

TEST_CASE("warming a file that was replaced holds the new version") {
  for (const std::size_t bytes : {std::size_t{5000}, kLarge}) {
    CAPTURE(bytes);
    ChangingSource source(bytes);
    source.open();
    source.swap();
    REQUIRE(source.warm());
    CHECK(source.store().is_on_disk(source.entry()));
    const std::uint64_t reads = source.source_reads();
    CHECK(source.read_anew() == source.after());
    CHECK(source.source_reads() == reads);
  }
}

// Opens anew with the catalog that was saved, after the file was written in place meanwhile. Its folder shows nothing
// of that.
void rewrite_while_closed(ChangingSource& source, const std::function<void()>& rewrite) {
  source.open();
  REQUIRE(source.warm());
  CHECK(source.store().flush());
  source.close();
  rewrite();
  source.open();
  REQUIRE(source.store().catalog().was_saved());
  REQUIRE(source.store().is_on_disk(source.entry()));
}

TEST_CASE("a file that was written in place while nobody had it mounted is not served from the tier as it was") {
  for (const std::size_t bytes : {std::size_t{5000}, kLarge}) {
    for (const ReadHint hint : {ReadHint::kNow, ReadHint::kNowHere, ReadHint::kAhead}) {
      CAPTURE(bytes);
      ChangingSource source(bytes);
      rewrite_while_closed(source, [&] { source.rewrite_with_same_size_and_mtime(); });
      std::promise<std::string> seen;
      source.store().read_async(
          source.entry(), [&](const Result<View>& view) { seen.set_value(text_of(view)); }, hint);
      CHECK(seen.get_future().get() == source.after());
      CHECK(source.read_anew() == source.after());
    }
  }
}

TEST_CASE("a part of a large file that was written in place while it was not mounted is not what the tier has") {
  ChangingSource source(kLarge);
  rewrite_while_closed(source, [&] { source.dir().write("a/f", source.after()); });
  std::promise<std::string> seen;
  source.store().read_range_async(source.entry(), 100'000, 1000,
                                  [&](const Result<View>& view) { seen.set_value(text_of(view)); });
  CHECK(seen.get_future().get() == source.after().substr(100'000, 1000));
}

TEST_CASE("a Reader gets a file that was written in place while it was not mounted as it is now") {
  ChangingSource source(5000);
  rewrite_while_closed(source, [&] { source.dir().write("a/f", source.after()); });
  const auto order =
      headrace::cache::make_order("sequential", {.sample_count = source.store().catalog().sample_count()});
  REQUIRE(order);
  auto reader = Reader::open(source.store(), **order, {});
  REQUIRE(reader);
  bool seen = false;
  while (auto next = (*reader)->next()) {
    if (next->entry != source.entry()) continue;
    CHECK(text_of(next->bytes) == source.after());
    seen = true;
    break;
  }
  CHECK(seen);
}

TEST_CASE("a file that was empty when it was listed is read as it is by now, and warmed") {
  for (const std::string now : {"", "it has content by now"}) {
    for (const bool warm : {false, true}) {
      CAPTURE(now);
      CAPTURE(warm);
      ChangingSource source(0);
      rewrite_while_closed(source, [&] { source.dir().write("a/f", now); });
      if (warm) {
        REQUIRE(source.warm());
        CHECK(source.store().is_on_disk(source.entry()));
      }
      std::promise<std::string> seen;
      source.store().read_async(source.entry(), [&](const Result<View>& view) { seen.set_value(text_of(view)); });
      CHECK(seen.get_future().get() == now);
      CHECK(source.read_anew() == now);
    }
  }
}

TEST_CASE("warming brings a file that was written in place while it was not mounted, though the tier has one of it") {
  for (const std::size_t bytes : {std::size_t{5000}, kLarge}) {
    CAPTURE(bytes);
    ChangingSource source(bytes);
    rewrite_while_closed(source, [&] { source.dir().write("a/f", source.after()); });
    REQUIRE(source.warm());
    CHECK(source.store().is_on_disk(source.entry()));
    const std::uint64_t reads = source.source_reads();
    CHECK(source.read_anew() == source.after());
    CHECK(source.source_reads() == reads);
  }
}

TEST_CASE("after a start with a saved catalog the source is asked once about each file, and about none once compared") {
  for (const bool is_compared : {false, true}) {
    CAPTURE(is_compared);
    std::atomic<int> operations = 0;
    ChangingSource source(5000);
    rewrite_while_closed(source, [&] { source.watch_reads([&](int) { ++operations; }); });
    if (is_compared) source.refresh();
    for (int round = 0; round < 3; ++round) CHECK(source.read_anew() == source.before());
    CHECK(operations == (is_compared ? 0 : 1));
    CHECK(source.source_reads() == 0);  // it was asked, not read
  }
}

std::int64_t age_ns(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  return now.count() - info.st_ctim.tv_sec * std::int64_t{1'000'000'000} - info.st_ctim.tv_nsec;
}

TEST_CASE("a file that changed just now is read when another change would leave a trace, whoever asks") {
  for (const ReadHint hint : {ReadHint::kNow, ReadHint::kNowHere, ReadHint::kAhead}) {
    ChangingSource source(5000);
    std::atomic<std::int64_t> age_ns_min = INT64_MAX;
    source.watch_reads([&](int) { age_ns_min = std::min(age_ns_min.load(), age_ns(source.path("a/f"))); });
    source.open();
    source.dir().write("a/f", source.after());
    REQUIRE(source.store().look_at(source.entry()));
    std::promise<std::string> seen;
    source.store().read_async(
        source.entry(), [&](const Result<View>& view) { seen.set_value(text_of(view)); }, hint);
    CHECK(seen.get_future().get() == source.after());
    CHECK(age_ns_min >= 20'000'000);
  }
}

TEST_CASE("a file on a source without an engine of its own is read a tick after its change as well") {
  ChangingSource source(5000);
  source.open();
  source.dir().write("a/f", source.after());
  REQUIRE(source.store().look_at(source.entry()));
  CHECK(text_of(source.read()) == source.after());  // its page cache has it
  CHECK(age_ns(source.path("a/f")) >= 20'000'000);
}

TEST_CASE("how long a file is too young depends on how finely its changes are stamped, and on no clock for longer") {
  using headrace::cache::time_to_settle;
  using std::chrono::milliseconds;
  constexpr std::int64_t kMs = 1'000'000;
  constexpr std::int64_t kChanged = 1'700'000'000'123'456'789;
  CHECK(time_to_settle(kChanged, kChanged) == milliseconds(20));
  CHECK(time_to_settle(kChanged, kChanged + 15 * kMs) == milliseconds(5));
  CHECK(time_to_settle(kChanged, kChanged + 20 * kMs) == milliseconds(0));
  CHECK(time_to_settle(kChanged, kChanged - 30'000 * kMs) == milliseconds(20));  // the server's clock is ahead
  CHECK(time_to_settle(kChanged, kChanged - 61'000 * kMs) == milliseconds(0));   // or wrong
  constexpr std::int64_t kWhole = 1'700'000'000'000'000'000;
  CHECK(time_to_settle(kWhole, kWhole + 500 * kMs) == milliseconds(1500));
  CHECK(time_to_settle(kWhole, kWhole + 2000 * kMs) == milliseconds(0));
  CHECK(time_to_settle(kWhole, kWhole - kMs) == milliseconds(2000));
  CHECK(time_to_settle(0, kWhole) == milliseconds(0));
  CHECK(time_to_settle(-5, kWhole) == milliseconds(0));
}

TEST_CASE("a store that is closed while a file is too young ends its read") {
  ChangingSource source(5000);
  std::promise<void> ended;
  source.open();
  source.dir().write("a/f", source.after());
  REQUIRE(source.store().look_at(source.entry()));
  source.store().read_async(
      source.entry(), [&](const Result<View>&) { ended.set_value(); }, ReadHint::kNow);
  source.close();
  ended.get_future().get();
}

TEST_CASE("a comparison does not bring back what a read knows better") {
  ChangingSource source(5000);
  source.open();
  source.swap();
  CHECK(text_of(source.read()) == source.after());
  source.refresh();
  CHECK(source.changes() == 1);
  CHECK(source.store().changes().changed.size() == 1);
  CHECK(text_of(source.read()) == source.after());
}

TEST_CASE("a comparison shows nobody a file that fewer may read now under the mode that it had") {
  ChangingSource source(5000);
  source.open();
  source.swap();
  fs::permissions(source.path("a/f"), fs::perms::owner_read);
  std::vector<mode_t> modes;
  source.store().set_change_listener([&](const CatalogChanges& changes) {
    for (const auto& each : changes.attributes) {
      if (each.entry == source.entry()) modes.push_back(each.attributes.mode & 0777);  // the folder is told, too
    }
    if (!changes.changed.empty()) modes.push_back(0);  // the content
  });
  source.refresh();
  CHECK(modes == std::vector<mode_t>{0400, 0});
}

}  // namespace changed_source_test
