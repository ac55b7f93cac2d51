// SPDX-License-Identifier: Apache-2.0
// A process that fills and reads a tier is killed at a random moment, again and again, on the same tier. After each
// restart every byte is right, what had been reported as written is there, and the folder holds no more than its
// budget.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cache/order.h"
#include "headrace/cache/store.h"

#include "support/temp_dir.h"

namespace crash_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::EntryId;
using headrace::cache::make_order;
using headrace::cache::SampleIndex;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::size_t kFiles = 120;
constexpr std::uint64_t kTierBytes = 8 << 20;  // more than the files: nothing has to make room
constexpr std::uint64_t kSmallTierBytes = 4 << 20;

int rounds_wanted(int usual) {
  const char* text = std::getenv("HEADRACE_TEST_ROUNDS");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text != nullptr ? std::atoi(text) : usual;
}

// Memory that the child writes and the parent reads after the child is gone.
struct Ledger {
  std::atomic<bool> written[kFiles];
};

class SharedLedger {
 public:
  SharedLedger()
      : ledger_(new (::mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                    Ledger()) {}
  ~SharedLedger() { ::munmap(ledger_, sizeof(Ledger)); }
  SharedLedger(const SharedLedger&) = delete;
  SharedLedger& operator=(const SharedLedger&) = delete;
  Ledger& operator*() const { return *ledger_; }

 private:
  Ledger* ledger_;
};

struct DataSet {
  DataSet() {
    for (std::size_t i = 0; i < kFiles; ++i) {
      contents.emplace_back(as_text(pattern_bytes(8'000 + i * 977 % 90'000, i)));
      source.write("class/" + std::to_string(i) + ".jpg", contents.back());
    }
  }
  [[nodiscard]] StoreOptions options(std::uint64_t tier_bytes = kTierBytes) const {
    StoreOptions made;
    made.source = source.path();
    made.ram_bytes = 1 << 20;
    made.tiers = {{.kind = TierKind::kSsd, .path = scratch.path() / "tier", .budget_bytes = tier_bytes}};
    return made;
  }
  [[nodiscard]] std::uint64_t segment_bytes_on_disk() const {
    std::uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(scratch.path() / "tier")) {
      const std::string name = file.path().filename();
      const bool is_index = name.find(".index") != std::string::npos;  // one being written may go meanwhile
      if (name.starts_with("segment-") && !is_index) bytes += file.file_size();
    }
    return bytes;
  }
  [[nodiscard]] std::size_t file_of(const Store& store, EntryId entry) const {
    return std::stoul(fs::path(store.catalog().path(entry)).stem());
  }

  TempDir source;
  TempDir scratch;
  std::vector<std::string> contents;
};

// Warms and reads in random order until it is killed.
[[noreturn]] void fill_until_killed(const DataSet& data, Ledger& ledger, std::uint64_t seed) {
  auto store = Store::open(data.options());
  if (!store) ::_exit(3);
  std::mt19937_64 random(seed);
  for (;;) {
    const SampleIndex sample = static_cast<SampleIndex>(random() % kFiles);
    const EntryId entry = (*store)->catalog().sample_entry(sample);
    const std::size_t file = data.file_of(**store, entry);
    if (random() % 2 == 0) {
      (*store)->warm(entry, [&ledger, file](const Status& status) {
        if (status) ledger.written[file].store(true);
      });
    } else {
      const auto view = (*store)->read(entry);
      if (!view || view->bytes().size() != data.contents[file].size()) ::_exit(4);
    }
  }
}

void check_after_restart(const DataSet& data, Ledger& ledger) {
  auto store = Store::open(data.options());
  REQUIRE_MESSAGE(store.has_value(), store.error().message());
  for (SampleIndex i = 0; i < kFiles; ++i) {
    const EntryId entry = (*store)->catalog().sample_entry(i);
    const std::size_t file = data.file_of(**store, entry);
    const auto view = (*store)->read(entry);
    REQUIRE_MESSAGE(view.has_value(), view.error().message());
    const auto* text = reinterpret_cast<const char*>(view->bytes().data());
    REQUIRE(std::string_view(text, view->bytes().size()) == data.contents[file]);
    if (ledger.written[file].load()) REQUIRE(view->served_from() == TierKind::kSsd);
  }
  CHECK((*store)->stats().tiers[1].corrupt == 0);
  // Read ahead of the checks above: nothing of this pass may count as written by the child of the next round.
  REQUIRE((*store)->flush().has_value());
  CHECK(data.segment_bytes_on_disk() <= kTierBytes);
}

TEST_CASE("kill -9 at any moment loses only what was in flight") {
  const int rounds = rounds_wanted(40);
  std::mt19937_64 random(20261120);
  const SharedLedger ledger;
  auto data = std::make_unique<DataSet>();
  for (int round = 0; round < rounds; ++round) {
    if (round % 4 == 0) {  // from an empty tier again
      fs::remove_all(data->scratch.path() / "tier");
      for (auto& written : (*ledger).written) written.store(false);
    }
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) fill_until_killed(*data, *ledger, random());
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 60'000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CAPTURE(round);
    REQUIRE(WIFSIGNALED(status));
    check_after_restart(*data, *ledger);
  }
}

// Half of the files in each epoch, through a tier that holds a quarter of them: records are evicted and moved.
[[noreturn]] void follow_until_killed(const DataSet& data, std::uint64_t first_epoch) {
  auto store = Store::open(data.options(kSmallTierBytes));
  const auto order = make_order("torch-distributed:seed=1,replicas=2,rank=0", {.sample_count = kFiles});
  if (!store || !order) ::_exit(3);
  const auto following = (*store)->follow(**order, {.epoch = first_epoch});
  for (std::uint64_t epoch = first_epoch;; following->enter(++epoch)) {
    const auto samples = (*order)->epoch(epoch);
    for (const SampleIndex sample : *samples) {
      if (!(*store)->read((*store)->catalog().sample_entry(sample))) ::_exit(4);
    }
  }
}

TEST_CASE("kill -9 while records are evicted and moved leaves no wrong byte and no more on disk than allowed") {
  std::mt19937_64 random(20261121);
  const DataSet data;
  for (int round = 0; round < rounds_wanted(10); ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) follow_until_killed(data, random() % 100);
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 150'000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CAPTURE(round);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(WTERMSIG(status) == SIGKILL);
    const auto store = Store::open(data.options(kSmallTierBytes));
    REQUIRE_MESSAGE(store.has_value(), store.error().message());
    for (SampleIndex i = 0; i < kFiles; ++i) {
      const EntryId entry = (*store)->catalog().sample_entry(i);
      const auto view = (*store)->read(entry);
      REQUIRE(view.has_value());
      const auto* text = reinterpret_cast<const char*>(view->bytes().data());
      REQUIRE(std::string_view(text, view->bytes().size()) == data.contents[data.file_of(**store, entry)]);
    }
    CHECK((*store)->stats().tiers[1].corrupt == 0);
    CHECK(data.segment_bytes_on_disk() <= kSmallTierBytes);
  }
}

}  // namespace

}  // namespace crash_test
