// SPDX-License-Identifier: Apache-2.0
// What the simulator predicts is what the live store does, for the same reads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/chunk.h"
#include "headrace/cache/disk/cleaner.h"
#include "headrace/cache/keep/next_uses.h"
#include "headrace/cache/order.h"
#include "headrace/cache/sample_sizes.h"
#include "headrace/cache/simulator.h"
#include "headrace/cache/store.h"

#include "support/fault_engine.h"
#include "support/temp_dir.h"

namespace hit_ratio_test {
namespace {

using headrace::cache::Catalog;
using headrace::cache::EntryId;
using headrace::cache::Following;
using headrace::cache::footprint_bytes;
using headrace::cache::make_order;
using headrace::cache::Order;
using headrace::cache::PolicyKind;
using headrace::cache::sample_sizes;
using headrace::cache::SampleIndex;
using headrace::cache::SampleSize;
using headrace::cache::SampleSizes;
using headrace::cache::simulate;
using headrace::cache::sizes_in_pages;
using headrace::cache::Store;
using headrace::cache::StoreOptions;
using headrace::cache::TierKind;
using headrace::cache::TierStats;
using headrace::cache::Trace;
using headrace::cache::trace_of;
using headrace::io::Engine;
using headrace::io::Operation;
using headrace::io::Result;
using headrace::io::Status;
using headrace::test::as_text;
using headrace::test::open_fault_engine;
using headrace::test::pattern_bytes;
using headrace::test::TempDir;

constexpr std::uint64_t kMiB = 1 << 20;

struct Fixture {
  Fixture(std::size_t files, std::size_t bytes)
      : file_bytes(bytes), sizes(files, static_cast<std::uint32_t>(footprint_bytes(bytes))) {
    for (std::size_t i = 0; i < files; ++i) {
      source.write("class/" + std::to_string(i) + ".jpg", as_text(pattern_bytes(bytes, i)));
    }
    options.source = source.path();
  }

  // Replays the trace; the fraction of the reads after the first epoch that did not reach the source. With an order the
  // store is told which epoch it is.
  double live_hit_ratio(const Trace& trace, const Order* order = nullptr) {
    auto opened = Store::open(options);
    REQUIRE(opened.has_value());
    Store& store = **opened;
    const std::unique_ptr<Following> following = order != nullptr ? store.follow(*order, {}) : nullptr;
    std::uint64_t source_before = 0;
    std::uint64_t epoch = 0;
    for (std::size_t i = 0; i < trace.reads.size(); ++i) {
      if (i == trace.epoch_ends[epoch]) {
        REQUIRE(store.flush().has_value());
        if (epoch++ == 0) source_before = store.stats().tiers.back().hits;
        if (following) following->enter(epoch);
      }
      read_and_compare(store, trace.reads[i]);
    }
    tier = store.stats().tiers[1];
    const double misses = static_cast<double>(store.stats().tiers.back().hits - source_before);
    return 1.0 - misses / static_cast<double>(trace.reads.size() - trace.epoch_ends[0]);
  }

  void read_and_compare(Store& store, SampleIndex sample) const {
    const EntryId entry = store.catalog().sample_entry(sample);
    const auto view = store.read(entry);
    REQUIRE(view.has_value());
    const std::size_t file = std::stoul(std::filesystem::path(store.catalog().path(entry)).stem());
    const auto expected = pattern_bytes(file_bytes, file);
    REQUIRE(std::ranges::equal(view->bytes(), expected));
  }

  TempDir source;
  TempDir scratch;
  StoreOptions options;
  std::size_t file_bytes;
  std::vector<std::uint32_t> sizes;
  TierStats tier;  // the second one, at the end of the replay
};

// Tells how many reads for the cleaning of a tier were begun at once, at most.
class CleaningWatch final : public Engine {
 public:
  CleaningWatch(std::unique_ptr<Engine> inner, std::atomic<unsigned>& most) : inner_(std::move(inner)), most_(most) {}

  void submit(Operation& operation) override {
    const bool cleans = operation.kind == Operation::Kind::kRead && operation.wanted == &headrace::io::kNobodyWaits;
    if (cleans) most_.store(std::max(most_.load(), ++begun_));
    inner_->submit(operation);
  }
  void wait(std::chrono::steady_clock::time_point deadline) override {
    begun_ = 0;
    inner_->wait(deadline);
  }
  void wake() override { inner_->wake(); }
  [[nodiscard]] std::size_t in_flight() const override { return inner_->in_flight(); }
  [[nodiscard]] std::size_t waiting() const override { return inner_->waiting(); }
  void hurry() override { inner_->hurry(); }
  [[nodiscard]] headrace::io::EngineInfo info() const override { return inner_->info(); }
  void register_file(int fd) override { inner_->register_file(fd); }
  void unregister_file(int fd) override { inner_->unregister_file(fd); }
  void set_rotational(bool rotational) override { inner_->set_rotational(rotational); }

 private:
  const std::unique_ptr<Engine> inner_;
  std::atomic<unsigned>& most_;
  unsigned begun_ = 0;  // since the last wait()
};

// Two readers that are equally fast.
Trace in_turns(const Order& first, const Order& second, std::uint64_t epochs) {
  Trace trace;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const std::vector<SampleIndex> one = *first.epoch(epoch);
    const std::vector<SampleIndex> other = *second.epoch(epoch);
    for (std::size_t i = 0; i < one.size(); ++i) trace.reads.insert(trace.reads.end(), {one[i], other[i]});
    trace.epoch_ends.push_back(trace.reads.size());
  }
  return trace;
}

TEST_CASE("a disk tier of half the data set hits what never-evict is predicted to, and writes nothing more") {
  Fixture fixture(512, 16'000);  // a record is 16 KiB: 64 to a segment of 1 MiB
  fixture.options.tiers = {{.kind = TierKind::kSsd, .path = fixture.scratch.path() / "tier", .budget_bytes = 4 * kMiB}};
  const auto order = make_order("torch-distributed:seed=1", {.sample_count = 512, .find_sample = {}});
  REQUIRE(order.has_value());
  const auto trace = trace_of(**order, {.epochs = 3});
  REQUIRE(trace.has_value());
  const double predicted =
      simulate(*trace, fixture.sizes, {.tiers = {{PolicyKind::kNeverEvict, 4 * kMiB}}}).hit_ratio();
  CHECK(predicted == doctest::Approx(0.5));
  CHECK(fixture.live_hit_ratio(*trace) == doctest::Approx(predicted));
}

// One of four nodes, each with a cache of its own of a tenth of the data set.
TEST_CASE("a disk tier of one rank of several hits what Belady's MIN is predicted to") {
  constexpr std::size_t kFiles = 1120;
  constexpr std::uint64_t kHeldBytes = 2 * kMiB / 8 * 7;  // of four segments: 112 files of 16 KiB
  Fixture fixture(kFiles, 16'000);
  fixture.options.tiers = {{.kind = TierKind::kSsd, .path = fixture.scratch.path() / "tier", .budget_bytes = 4 * kMiB}};
  std::atomic<unsigned> cleaned_at_once = 0;
  fixture.options.make_tier_engine = [&cleaned_at_once]() -> Result<std::unique_ptr<Engine>> {
    auto engine = headrace::io::open_engine({});
    if (!engine) return engine;
    return std::make_unique<CleaningWatch>(std::move(*engine), cleaned_at_once);
  };
  const auto order = make_order("torch-distributed:seed=1,replicas=4,rank=0", {.sample_count = kFiles});
  REQUIRE(order.has_value());
  const auto trace = trace_of(**order, {.epochs = 10});
  REQUIRE(trace.has_value());
  const auto predicted = [&](PolicyKind policy) {
    return simulate(*trace, fixture.sizes, {.tiers = {{policy, kHeldBytes}}}).hit_ratio();
  };
  CHECK(predicted(PolicyKind::kNeverEvict) == doctest::Approx(0.10).epsilon(0.2));
  CHECK(predicted(PolicyKind::kMin) == doctest::Approx(0.31).epsilon(0.1));
  CHECK(fixture.live_hit_ratio(*trace, order->get()) == doctest::Approx(predicted(PolicyKind::kMin)).epsilon(0.05));
  CHECK(fixture.tier.placement == "min: each epoch reads other files");
  CHECK(fixture.tier.used_bytes <= 4 * kMiB);
  CHECK(fixture.tier.corrupt == 0);
  CHECK(fixture.tier.moved_bytes > 0);
  CHECK(fixture.tier.moved_bytes <= fixture.tier.write_bytes * 7);
  CHECK(cleaned_at_once == headrace::cache::Cleaner::kMovesMax);

  const std::uint64_t held_before = fixture.tier.samples;
  const auto again = Store::open(fixture.options);
  REQUIRE(again.has_value());
  CHECK((*again)->stats().tiers[1].samples >= held_before);  // those evicted since the last cleaning are found, too
  for (SampleIndex sample = 0; sample < kFiles; sample += 7) fixture.read_and_compare(**again, sample);
  std::uint64_t on_disk = 0;
  for (const auto& file : std::filesystem::directory_iterator(fixture.scratch.path() / "tier")) {
    const bool is_segment = file.path().filename().string().starts_with("segment-");
    if (is_segment && file.path().extension() != ".index") on_disk += file.file_size();
  }
  CHECK(on_disk <= 4 * kMiB);
}

TEST_CASE("under MIN a disk tier comes to hold a validation set that is in no order") {
  constexpr std::size_t kFiles = 600;
  constexpr SampleIndex kInOrder = 580;
  Fixture fixture(kFiles, 16'000);
  fixture.options.tiers = {{.kind = TierKind::kSsd, .path = fixture.scratch.path() / "tier", .budget_bytes = 4 * kMiB}};
  const auto order = make_order("torch-distributed:seed=1,replicas=4,rank=0", {.sample_count = kInOrder});
  REQUIRE(order.has_value());
  const auto opened = Store::open(fixture.options);
  REQUIRE(opened.has_value());
  Store& store = **opened;
  const auto following = store.follow(**order, {});
  std::uint64_t misses = 0;  // of the last epoch's validation
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    if (epoch > 0) following->enter(epoch);
    const std::vector<SampleIndex> samples = *(*order)->epoch(epoch);
    for (const SampleIndex sample : samples) fixture.read_and_compare(store, sample);
    const std::uint64_t before = store.stats().tiers.back().hits;
    for (SampleIndex sample = kInOrder; sample < kFiles; ++sample) fixture.read_and_compare(store, sample);
    misses = store.stats().tiers.back().hits - before;
    if (epoch == 0) CHECK(misses == kFiles - kInOrder);
    REQUIRE(store.flush().has_value());
  }
  CHECK(store.stats().tiers[1].placement == "min: each epoch reads other files");
  CHECK(misses == 0);
}

TEST_CASE("placement is chosen from the order, and the distance to the minimum is told") {
  Fixture fixture(64, 3'000);
  fixture.options.tiers = {{.kind = TierKind::kSsd, .path = fixture.scratch.path() / "tier", .budget_bytes = 4 * kMiB}};
  const auto opened = Store::open(fixture.options);
  REQUIRE(opened.has_value());
  Store& store = **opened;
  const auto placement = [&] { return store.stats().tiers[1].placement; };
  const auto order_of = [](const char* spec) { return *make_order(spec, {.sample_count = 64}); };
  const auto all = order_of("torch-distributed:seed=1");
  const auto rank = order_of("torch-distributed:seed=1,replicas=4,rank=2");
  CHECK(placement() == "never-evict: no order known");
  CHECK_FALSE(store.stats().epoch_reads.has_value());
  {
    const auto following = store.follow(*all, {.epoch = 3});
    CHECK(placement() == "never-evict: each epoch reads the same files");
    fixture.read_and_compare(store, 5);
    REQUIRE(store.stats().epoch_reads.has_value());
    CHECK(store.stats().epoch_reads->epoch == 3);
    CHECK(store.stats().epoch_reads->source_reads == 1);
    CHECK(store.stats().epoch_reads->minimum_source_reads == 0);  // the tier has room for all
    const auto second = store.follow(*rank, {});
    CHECK(placement() == "min: several orders are read at once");
    second->enter(1);
  }
  CHECK(placement() == "never-evict: no order known");
  const auto following = store.follow(*rank, {});
  CHECK(placement() == "min: each epoch reads other files");
  const auto epoch = rank->epoch(0);
  REQUIRE(epoch.has_value());
  std::promise<Status> warmed;
  store.warm(store.catalog().sample_entry(epoch->front()), [&](Status status) { warmed.set_value(std::move(status)); });
  CHECK(warmed.get_future().get().has_value());
}

TEST_CASE("a disk tier that two orders are read from at once hits what MIN over both is predicted to") {
  constexpr std::size_t kFiles = 512;
  constexpr std::uint64_t kHeldBytes = 2 * kMiB / 8 * 7;
  Fixture fixture(kFiles, 16'000);
  fixture.options.tiers = {{.kind = TierKind::kSsd, .path = fixture.scratch.path() / "tier", .budget_bytes = 4 * kMiB}};
  SUBCASE("fast") {}
  SUBCASE("slow") {  // what is read again while it is being written comes from memory, and is a use, too
    fixture.options.make_tier_engine = [] {
      auto engine = headrace::io::open_engine({});
      if (!engine) return engine;
      return Result<std::unique_ptr<Engine>>(open_fault_engine(std::move(*engine), {.delay_one_in = 1}));
    };
  }
  const auto first = make_order("torch-distributed:seed=1", {.sample_count = kFiles});
  const auto second = make_order("torch-distributed:seed=2", {.sample_count = kFiles});
  REQUIRE((first.has_value() && second.has_value()));
  const Trace trace = in_turns(**first, **second, 6);
  const auto predicted = [&](PolicyKind policy) {
    return simulate(trace, fixture.sizes, {.tiers = {{policy, kHeldBytes}}}).hit_ratio();
  };
  CHECK(predicted(PolicyKind::kMin) > predicted(PolicyKind::kNeverEvict) + 0.1);

  const auto opened = Store::open(fixture.options);
  REQUIRE(opened.has_value());
  Store& store = **opened;
  const auto one = store.follow(**first, {});
  const auto other = store.follow(**second, {});
  std::uint64_t epoch = 0;
  for (std::size_t i = 0; i < trace.reads.size(); ++i) {
    if (i == trace.epoch_ends[epoch]) {
      REQUIRE(store.flush().has_value());
      one->enter(++epoch);
      other->enter(epoch);
    }
    // On a busy machine the writes may fall behind, and what has no room among them is not written.
    if (i % 16 == 0) REQUIRE(store.flush().has_value());
    fixture.read_and_compare(store, trace.reads[i]);
  }
  const auto misses = static_cast<double>(store.stats().tiers.back().hits);
  CHECK(1 - misses / static_cast<double>(trace.reads.size()) ==
        doctest::Approx(predicted(PolicyKind::kMin)).epsilon(0.015));
  CHECK(store.stats().tiers[1].placement == "min: several orders are read at once");
  CHECK(store.stats().tiers[1].used_bytes <= 4 * kMiB);
}

TEST_CASE("a small file takes a whole page of the page cache, also where pages have 16 or 64 KiB") {
  using headrace::cache::page_cache_units;
  CHECK(page_cache_units(0, 65536) == 0);
  CHECK(page_cache_units(1, 4096) == 1);
  CHECK(page_cache_units(4097, 4096) == 2);
  CHECK(page_cache_units(1, 16384) == 4);
  CHECK(page_cache_units(1, 65536) == 16);
  CHECK(page_cache_units(65537, 65536) == 32);
}

TEST_CASE("sizes of samples are told by where they lie, and a large file's chunks are counted one by one") {
  const TempDir folder;
  const std::vector<std::uint64_t> bytes = {0, 1, 4096, 8 * kMiB, 8 * kMiB + 1, 12 * kMiB, 8 * kMiB * 1024};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    folder.write("class/" + std::to_string(i) + ".jpg", "");
    std::filesystem::resize_file(folder.path() / "class" / (std::to_string(i) + ".jpg"), bytes[i]);
  }
  const auto catalog = Catalog::scan(folder.path().c_str(), {});
  REQUIRE(catalog.has_value());
  constexpr std::uint32_t kPage = 4096;
  using Sizes = std::vector<std::uint32_t>;
  CHECK(sample_sizes(*catalog, SampleSize::kContent) ==
        Sizes{0, 1, kPage, 8 * kMiB, 8 * kMiB + 1, 12 * kMiB, UINT32_MAX});
  const SampleSizes in_page_cache = sizes_in_pages(*catalog, SampleSize::kPagesInPageCache);
  const std::vector<std::uint64_t> expected = {0, kPage, kPage, 8 * kMiB, 8 * kMiB + kPage, 12 * kMiB, bytes[6]};
  for (SampleIndex sample = 0; sample < expected.size(); ++sample) CHECK(in_page_cache[sample] == expected[sample]);
  CHECK(in_page_cache.total() == std::accumulate(expected.begin(), expected.end(), std::uint64_t{0}));
  const SampleSizes in_store = sizes_in_pages(*catalog, SampleSize::kPagesInStore);
  const std::vector<std::uint64_t> stored = {
      kPage, kPage, 2 * kPage, 8 * kMiB + kPage, 8 * kMiB + 3 * kPage, 12 * kMiB + 3 * kPage};
  for (SampleIndex sample = 0; sample < stored.size(); ++sample) CHECK(in_store[sample] == stored[sample]);
  CHECK(in_store[6] > bytes[6]);
}

TEST_CASE("next uses are those of the order, however far the reader went") {
  const auto order = make_order("torch-distributed:seed=5,replicas=3,rank=1", {.sample_count = 30});
  REQUIRE(order.has_value());
  const auto trace = trace_of(**order, {.first_epoch = 2, .epochs = 6});
  REQUIRE(trace.has_value());
  headrace::cache::NextUses uses(draw_uses(**order, 30, 2));
  std::uint64_t epoch = 0;
  for (std::size_t i = 0; i < trace->reads.size(); ++i) {
    if (i == trace->epoch_ends[epoch]) uses.enter(draw_uses(**order, 30, 2 + ++epoch, uses.ahead().get()));
    const auto rest = trace->reads.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto next = std::find(rest, trace->reads.end(), trace->reads[i]);
    REQUIRE(uses.upcoming(trace->reads[i]) == i);
    const std::uint64_t later = uses.take(trace->reads[i]);
    if (next != trace->reads.end()) CHECK(later == static_cast<std::uint64_t>(next - trace->reads.begin()));
  }
}

TEST_CASE("the RAM tier without an order hits what S3-FIFO is predicted to") {
  constexpr std::size_t kFiles = 600;
  Fixture fixture(kFiles, 8'000);
  fixture.options.ram_bytes = kFiles / 3 * footprint_bytes(8'000);
  Trace trace;
  std::mt19937_64 random(3);
  for (int i = 0; i < 9'000; ++i) {
    const double place = std::pow(std::generate_canonical<double, 32>(random), 3.0);  // a third of the files, mostly
    trace.reads.push_back(static_cast<SampleIndex>(place * kFiles));
  }
  trace.epoch_ends = {3'000, 6'000, 9'000};
  const double predicted =
      simulate(trace, fixture.sizes, {.tiers = {{PolicyKind::kS3Fifo, fixture.options.ram_bytes}}}).hit_ratio();
  CHECK(predicted > 0.6);
  CHECK(fixture.live_hit_ratio(trace) == doctest::Approx(predicted).epsilon(0.04));  // 16 small caches, not one
}

}  // namespace

}  // namespace hit_ratio_test
