// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/tier_tools.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "headrace/cache/disk/disk_tier.h"
#include "headrace/cache/disk/segment.h"
#include "headrace/cache/disk/tier_folder.h"
#include "headrace/cache/store.h"

#include "support/temp_dir.h"

namespace tier_tools_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::describe_tier;
using headrace::cache::DiskTier;
using headrace::cache::kBlockBytes;
using headrace::cache::RamTier;
using headrace::cache::RecordTrailer;
using headrace::cache::remove_tier;
using headrace::cache::SampleIndex;
using headrace::cache::Segment;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierFolder;
using headrace::cache::TierKind;
using headrace::cache::verify_tier;
using headrace::io::ErrorCode;
using headrace::io::Status;
using headrace::io::TimerThread;
using headrace::test::as_text;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr int kFiles = 30;

struct Fixture {
  Fixture() {
    for (int i = 0; i < kFiles; ++i) {
      source.write("class/" + std::to_string(i) + ".jpg",
                   as_text(pattern_bytes(10'000, static_cast<std::uint64_t>(i))));
    }
  }
  [[nodiscard]] std::unique_ptr<Store> open() const {
    StoreOptions options;
    options.source = source.path();
    options.tiers = {{.kind = TierKind::kSsd, .path = tier, .budget_bytes = 16 << 20}};
    auto store = Store::open(options);
    REQUIRE(store.has_value());
    return std::move(*store);
  }
  void fill() const {
    const auto store = open();
    for (SampleIndex i = 0; i < kFiles; ++i) {
      std::promise<Status> warmed;
      store->warm(store->catalog().sample_entry(i), [&](Status status) { warmed.set_value(std::move(status)); });
      REQUIRE(warmed.get_future().get().has_value());
    }
  }
  TempDir source;
  TempDir scratch;
  fs::path tier = scratch.path() / "tier";
};

TEST_CASE("a tier is described while it is closed and while it is used") {
  const Fixture fixture;
  fixture.fill();
  const auto owner = fixture.open();
  const auto info = describe_tier(fixture.tier);
  REQUIRE(info.has_value());
  REQUIRE(info->data_sets.size() == 1);
  CHECK(info->data_sets[0].source == fs::canonical(fixture.source.path()));
  CHECK(info->data_sets[0].records == kFiles);
  CHECK(info->data_sets[0].bytes == kFiles * 10'000);
  CHECK(info->segments >= 1);
  CHECK(info->segments_without_index == 0);
}

TEST_CASE("verifying finds the damaged record and takes it out") {
  const Fixture fixture;
  fixture.fill();
  auto intact = verify_tier(fixture.tier, {});
  REQUIRE_MESSAGE(intact.has_value(), intact.error().message());
  CHECK(intact->records == kFiles);
  CHECK(intact->damaged == 0);

  std::fstream segment(fixture.tier / "segment-00000001", std::ios::in | std::ios::out | std::ios::binary);
  segment.seekp(5'000);
  segment.put('!');
  segment.close();
  const auto damaged = verify_tier(fixture.tier, {});
  REQUIRE(damaged.has_value());
  CHECK(damaged->damaged == 1);
  CHECK(verify_tier(fixture.tier, {})->damaged == 0);
  CHECK(describe_tier(fixture.tier)->data_sets[0].records == kFiles - 1);
}

TEST_CASE("verifying keeps to its rate and ends when told") {
  const Fixture fixture;
  fixture.fill();
  const auto started = std::chrono::steady_clock::now();
  REQUIRE(verify_tier(fixture.tier, {.bytes_per_second = 1'000'000, .on_progress = {}})->complete);
  CHECK(std::chrono::steady_clock::now() - started > std::chrono::milliseconds(250));  // 300 kB
  const auto ended = verify_tier(fixture.tier, {.on_progress = [](auto, auto) { return false; }});
  REQUIRE(ended.has_value());
  CHECK_FALSE(ended->complete);
  CHECK(ended->records == 0);
}

TEST_CASE("a tier in use is neither verified nor removed") {
  const Fixture fixture;
  const auto owner = fixture.open();
  CHECK(verify_tier(fixture.tier, {}).error().code == ErrorCode::kBusy);
  CHECK(remove_tier(fixture.tier).error().code == ErrorCode::kBusy);
}

TEST_CASE("removing a tier leaves what is not the tier's") {
  const Fixture fixture;
  fixture.fill();
  std::ofstream(fixture.tier / "notes.txt") << "mine";
  REQUIRE(remove_tier(fixture.tier).has_value());
  CHECK(fs::exists(fixture.tier / "notes.txt"));
  CHECK(std::distance(fs::directory_iterator(fixture.tier), fs::directory_iterator()) == 1);
  CHECK(remove_tier(fixture.tier).error().code == ErrorCode::kNotFound);
  fs::remove(fixture.tier / "notes.txt");
  fixture.fill();
  std::ofstream(fixture.tier / "segment-00000000.index.new") << "by a process that was killed";
  REQUIRE(remove_tier(fixture.tier).has_value());
  CHECK_FALSE(fs::exists(fixture.tier));
}

TEST_CASE("a tier with a damaged label names its remedy, and the remedy works") {
  const Fixture fixture;
  for (const std::streamoff byte : {0, 8, 20, 24, 60}) {
    CAPTURE(byte);
    fixture.fill();
    std::fstream label(fixture.tier / "tier", std::ios::in | std::ios::out | std::ios::binary);
    label.seekg(byte);
    const int before = label.get();
    label.seekp(byte);
    label.put(static_cast<char>(before ^ 4));
    label.close();
    StoreOptions options;
    options.source = fixture.source.path();
    options.tiers = {{.kind = TierKind::kSsd, .path = fixture.tier, .budget_bytes = 16 << 20}};
    const auto refused = Store::open(options);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().context.find("headrace tier rm " + fixture.tier.string()) != std::string::npos);
    REQUIRE(remove_tier(fixture.tier).has_value());
    CHECK_FALSE(fs::exists(fixture.tier));
  }
}

TEST_CASE("a folder with other files in it is not made a tier") {
  const Fixture fixture;
  fs::create_directory(fixture.tier);
  std::ofstream(fixture.tier / "thesis.tex") << "mine";
  StoreOptions options;
  options.source = fixture.source.path();
  options.tiers = {{.kind = TierKind::kSsd, .path = fixture.tier, .budget_bytes = 16 << 20}};
  auto refused = Store::open(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(std::distance(fs::directory_iterator(fixture.tier), fs::directory_iterator()) == 1);
  CHECK(verify_tier(fixture.tier, {}).error().code == ErrorCode::kNotFound);
  CHECK(std::distance(fs::directory_iterator(fixture.tier), fs::directory_iterator()) == 1);
}

TEST_CASE("the files on disk begin with what cache/README.md says") {
  const Fixture fixture;
  fixture.fill();
  const auto read_at = [&](const char* name, std::uint64_t offset, std::size_t bytes) {
    std::ifstream file(fixture.tier / name, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    std::string text(bytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(bytes));
    return text;
  };
  CHECK(read_at("tier", 0, 8) == std::string("hr-tier\0", 8));
  CHECK(read_at("tier", 8, 4) == std::string("\2\0\0\0", 4));
  CHECK(read_at("segment-00000001.index", 0, 8) == "segindex");
  // 10 000 bytes of payload: three blocks, the trailer at the end of the third.
  CHECK(read_at("segment-00000001", 3 * kBlockBytes - sizeof(RecordTrailer), 4) == "RCRD");
  CHECK(fs::file_size(fixture.tier / "tier") == 64);
  CHECK(fs::file_size(fixture.tier / "segment-00000001.index") == 64 + kFiles * 40);
}

// HEADRACE_TIER_RECORDS=1000000 shows the bound of a second that a tier of a million records has to open in.
TEST_CASE("a tier with many records opens quickly from its index files") {
  const char* text = std::getenv("HEADRACE_TIER_RECORDS");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const std::uint64_t records = text != nullptr ? std::strtoull(text, nullptr, 10) : 50'000;
  const Fixture fixture;
  constexpr std::uint32_t kBlocksPerRecord = 27;
  constexpr std::uint64_t kBudget = 1ULL << 40;
  {
    auto folder = TierFolder::open(fixture.tier, 256 << 20, TierFolder::Mode::kCreate);
    REQUIRE(folder.has_value());
    constexpr std::uint64_t kPerSegment = (256 << 20) / kBlockBytes / kBlocksPerRecord;
    for (std::uint64_t first = 0; first < records; first += kPerSegment) {
      Segment segment;
      segment.number = static_cast<std::uint32_t>(first / kPerSegment + 1);
      REQUIRE(open_segment_file(*folder, segment, true).has_value());
      segment.sealed = true;
      for (std::uint64_t i = first; i < std::min(records, first + kPerSegment); ++i) {
        segment.records.push_back({1, i, i, i, kBlocksPerRecord * 4096 - 200, segment.next_block});
        segment.next_block += kBlocksPerRecord;
      }
      REQUIRE(save_segment_index(*folder, segment, false).has_value());
    }
  }
  RamTier ram(0, [] {});
  TimerThread timers("test-timer");
  const auto started = std::chrono::steady_clock::now();
  auto tier = DiskTier::open({.tier = {TierKind::kSsd, fixture.tier, kBudget}, .data_set = {1, "/data"}}, ram, timers);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  REQUIRE_MESSAGE(tier.has_value(), tier.error().message());
  MESSAGE("opened ", records, " records in ", seconds.count(), " s");
  CHECK((*tier)->stats().samples == records);
  CHECK(seconds.count() < 1.0 + static_cast<double>(records) / 100'000);  // generous: CI machines are slow and busy
  (*tier)->close();
  timers.stop();
}

}  // namespace

}  // namespace tier_tools_test
