// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/segment_log.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>

#include <doctest/doctest.h>

#include "headrace/cache/tier.h"

#include "support/temp_dir.h"

namespace segment_log_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::kBlockBytes;
using headrace::cache::Segment;
using headrace::cache::segment_index_name;
using headrace::cache::SegmentLog;
using headrace::cache::TierFolder;
using headrace::cache::TierState;
using headrace::cache::TierStats;
using headrace::cache::TierThreads;
using headrace::test::TempDir;

constexpr std::uint64_t kSegmentBytes = 256ULL << 20;
constexpr std::uint32_t kBlocksPerRecord = 8;
constexpr std::uint64_t kPerSegment = kSegmentBytes / kBlockBytes / kBlocksPerRecord;

// Full, sealed segments of another data set, as their index files tell; nothing reads the records.
void make_segments(const fs::path& path, std::uint64_t count) {
  const auto folder = TierFolder::open(path, kSegmentBytes, TierFolder::Mode::kCreate);
  REQUIRE(folder.has_value());
  for (std::uint64_t number = 1; number <= count; ++number) {
    Segment segment;
    segment.number = static_cast<std::uint32_t>(number);
    REQUIRE(open_segment_file(*folder, segment, true).has_value());
    segment.sealed = true;
    for (std::uint64_t i = 0; i < kPerSegment; ++i) {
      const std::uint64_t name = number * kPerSegment + i;
      segment.records.push_back({2, name, name, name, kBlocksPerRecord * 4096 - 200, segment.next_block});
      segment.next_block += kBlocksPerRecord;
    }
    REQUIRE(save_segment_index(*folder, segment, false).has_value());
  }
}

std::uint64_t samples_in(const SegmentLog& log) {
  TierStats stats;
  log.add_figures(stats);
  return stats.samples;
}

// HEADRACE_TIER_RECORDS=10000000 shows what freeing a segment costs a large tier: 154 ms when it looked at all records.
TEST_CASE("freeing a segment takes out its own records, also where its index file is lost") {
  const char* text = std::getenv("HEADRACE_TIER_RECORDS");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const std::uint64_t records = text != nullptr ? std::strtoull(text, nullptr, 10) : 30'000;
  const std::uint64_t segments = std::max<std::uint64_t>(3, records / kPerSegment);
  const TempDir scratch;
  make_segments(scratch.path() / "tier", segments);
  auto folder = TierFolder::open(scratch.path() / "tier", 0, TierFolder::Mode::kOwner);
  REQUIRE(folder.has_value());
  TierState state("tier");
  auto threads = TierThreads::start({});
  REQUIRE(threads.has_value());
  auto log = SegmentLog::open(std::move(*folder), {.budget_bytes = segments * kSegmentBytes, .data_set = {1, "/data"}},
                              state, **threads);
  REQUIRE(log.has_value());
  REQUIRE(samples_in(**log) == segments * kPerSegment);
  const auto free_one = [&] {
    std::promise<std::chrono::steady_clock::duration> took;
    (*threads)->writer().post([&] {
      const auto started = std::chrono::steady_clock::now();
      (*log)->remove(*(*log)->least_useful());
      took.set_value(std::chrono::steady_clock::now() - started);
    });
    return std::chrono::duration<double, std::milli>(took.get_future().get()).count();
  };
  MESSAGE("freed one of ", segments, " segments in ", free_one(), " ms");
  CHECK(samples_in(**log) == (segments - 1) * kPerSegment);
  fs::remove(scratch.path() / "tier" / segment_index_name(2));
  MESSAGE("without its index file in ", free_one(), " ms");
  CHECK(samples_in(**log) == (segments - 2) * kPerSegment);
  CHECK_FALSE(fs::exists(scratch.path() / "tier" / "segment-00000001"));
  CHECK_FALSE(fs::exists(scratch.path() / "tier" / "segment-00000002"));
  CHECK(fs::exists(scratch.path() / "tier" / "segment-00000003"));
  static_cast<void>(state.close());
  (*log)->unregister_files();
  threads->reset();
}

}  // namespace

}  // namespace segment_log_test
