// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/batch_loader.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>

#include "headrace/io/log.h"

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"
#include "support/temp_dir.h"

namespace headrace::decode::batch_loader_test {
namespace {

using test::Files;
using test::MemorySource;

Files make_files(unsigned count, const std::set<unsigned>& broken = {}) {
  Files files;
  for (unsigned i = 0; i < count; ++i) {
    files.push_back(test::make_jpeg({.size = {40 + (i * 37) % 100, 40 + (i * 53) % 70}, .seed = i}));
    if (broken.contains(i)) files.back().resize(300);  // within the header: a crop would not notice a missing end
  }
  return files;
}

BatchOptions small_options() {
  return {.batch_size = 4,
          .seed = 7,
          .transform = {.geometry = RandomResizedCrop{.size = {16, 12}}, .flip_probability = 0.5},
          .format = {.type = ElementType::kFloat16, .normalise = kImageNet},
          .workers = {.threads = 3}};
}

std::unique_ptr<BatchLoader> start(const Files& files, const BatchOptions& options, std::uint64_t epochs = 1,
                                   std::uint64_t first_position = 0) {
  io::set_log_level(io::LogLevel::kError);  // bad samples are expected here
  auto loader = BatchLoader::start(std::make_unique<MemorySource>(files, epochs, first_position), options);
  REQUIRE(loader);
  return std::move(*loader);
}

struct Seen {
  std::uint64_t epoch;
  std::uint64_t number;
  std::uint64_t next_position;
  std::vector<SampleIndex> indices;
  std::vector<std::byte> data;
  friend bool operator==(const Seen&, const Seen&) = default;
};

std::vector<Seen> all_batches(BatchLoader& loader) {
  std::vector<Seen> seen;
  while (const Batch* batch = loader.next()) {
    REQUIRE(batch->labels.size() == batch->indices.size());
    for (std::size_t i = 0; i < batch->labels.size(); ++i) CHECK(batch->labels[i] == batch->indices[i] % 10);
    seen.push_back(
        {batch->epoch, batch->number, batch->next_position, batch->indices, {batch->data.begin(), batch->data.end()}});
  }
  return seen;
}

std::vector<std::vector<SampleIndex>> indices_of(const std::vector<Seen>& batches) {
  std::vector<std::vector<SampleIndex>> indices;
  for (const Seen& batch : batches) indices.push_back(batch.indices);
  return indices;
}

TEST_CASE("batches are the same bytes with one thread and with eight") {
  const Files files = make_files(30);
  BatchOptions options = small_options();
  options.workers.threads = 1;
  const std::vector<Seen> one = all_batches(*start(files, options, 2));
  options.workers.threads = 8;
  options.batches_ahead = 5;
  const std::vector<Seen> eight = all_batches(*start(files, options, 2));
  REQUIRE(one.size() == 16);
  CHECK(one == eight);
  CHECK(one[0].data.size() == 4 * 16 * 12 * 3 * 2);
  CHECK(one[0].data != one[8].data);  // another epoch draws other crops
}

TEST_CASE("a sample that an order repeats is cropped anew each time") {
  const Files files = make_files(6);
  constexpr std::uint64_t kRepeats = 4;  // a batch is one sample, four times
  auto loader = BatchLoader::start(std::make_unique<MemorySource>(files, 1, 0, kRepeats), small_options());
  REQUIRE(loader);
  for (const Seen& batch : all_batches(**loader)) {
    CHECK(batch.indices == std::vector<SampleIndex>(kRepeats, batch.indices[0]));
    const std::size_t row = batch.data.size() / kRepeats;
    std::set<std::string_view> different;
    const std::string_view all = test::as_text(batch.data);
    for (std::size_t i = 0; i < kRepeats; ++i) different.insert(all.substr(i * row, row));
    CHECK(different.size() == kRepeats);
  }
}

TEST_CASE("an epoch ends with a short batch, or without it") {
  const Files files = make_files(6);
  BatchOptions options = small_options();
  const std::vector<Seen> with_last = all_batches(*start(files, options, 2));
  CHECK(indices_of(with_last) == std::vector<std::vector<SampleIndex>>{{0, 1, 2, 3}, {4, 5}, {0, 1, 2, 3}, {4, 5}});
  CHECK(with_last[3].number == 1);
  options.drop_last = true;
  const std::vector<Seen> without = all_batches(*start(files, options, 2));
  CHECK(indices_of(without) == std::vector<std::vector<SampleIndex>>{{0, 1, 2, 3}, {0, 1, 2, 3}});
  CHECK(without[1].epoch == 1);
}

TEST_CASE("an epoch that makes no batch says so by one without rows") {
  const Files three = make_files(3);
  const Files broken = make_files(6, {0, 1, 2, 3, 4, 5});
  BatchOptions options = small_options();
  options.drop_last = true;
  const std::vector<Seen> too_few = all_batches(*start(three, options, 2));
  CHECK(indices_of(too_few) == std::vector<std::vector<SampleIndex>>{{}, {}});
  CHECK(too_few[1].epoch == 1);
  for (const bool drop_last : {false, true}) {
    options.drop_last = drop_last;
    options.bad_samples = BadSamples::kSkip;
    const std::vector<Seen> all_bad = all_batches(*start(broken, options, 3));
    CHECK(indices_of(all_bad) == std::vector<std::vector<SampleIndex>>{{}, {}, {}});
    CHECK(all_bad[2].epoch == 2);
    CHECK(all_bad[2].next_position == 6);
  }
}

TEST_CASE("raise ends the loader with the name of the bad sample") {
  const Files files = make_files(12, {5});
  auto loader = start(files, small_options());
  CHECK(all_batches(*loader).size() == 1);
  REQUIRE_FALSE(loader->status());
  CHECK(loader->status().error().code == io::ErrorCode::kCorrupt);
  CHECK(loader->status().error().message().find("file-5") != std::string::npos);
  CHECK(loader->next() == nullptr);
}

TEST_CASE("zero leaves a row of zeros and says so") {
  const Files files = make_files(4, {2});
  BatchOptions options = small_options();
  options.bad_samples = BadSamples::kZero;
  auto loader = start(files, options);
  const Batch* batch = loader->next();
  REQUIRE(batch != nullptr);
  CHECK(batch->states[2] == SampleState::kBad);
  CHECK(batch->states[1] == SampleState::kGood);
  const std::size_t row = batch->data.size() / 4;
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  CHECK(std::ranges::all_of(batch->data.subspan(2 * row, row), is_zero));
  CHECK_FALSE(std::ranges::all_of(batch->data.subspan(row, row), is_zero));
  REQUIRE(batch->notes.size() == 1);
  CHECK(batch->notes[0].index == 2);
  CHECK(batch->notes[0].reason.find("file-2") != std::string::npos);
}

TEST_CASE("skip gives the batches of an order without the bad samples") {
  for (const std::set<unsigned>& broken :
       {std::set<unsigned>{0}, {3}, {29}, {1, 2, 9}, {4, 5, 6, 7, 8, 9, 10, 11, 12}, {27, 28, 29}}) {
    const Files files = make_files(30, broken);
    BatchOptions options = small_options();
    options.bad_samples = BadSamples::kSkip;
    std::vector<std::vector<SampleIndex>> expected;
    for (int epoch = 0; epoch < 3; ++epoch) {
      expected.emplace_back();
      for (SampleIndex i = 0; i < 30; ++i) {
        if (broken.contains(i)) continue;
        if (expected.back().size() == 4) expected.emplace_back();
        expected.back().push_back(i);
      }
    }
    std::vector<Seen> first;
    for (unsigned threads : {1U, 8U}) {
      options.workers.threads = threads;
      const std::vector<Seen> batches = all_batches(*start(files, options, 3));
      CHECK(indices_of(batches) == expected);
      if (threads == 1) first = batches;
      CHECK(batches == first);
    }
  }
}

TEST_CASE("nothing but bad samples is a batch without rows, and no error") {
  const Files files = make_files(5, {0, 1, 2, 3, 4});
  BatchOptions options = small_options();
  options.bad_samples = BadSamples::kSkip;
  auto loader = start(files, options, 2);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    const Batch* batch = loader->next();
    REQUIRE(batch != nullptr);
    CHECK(batch->epoch == epoch);
    CHECK(batch->labels.empty());
    CHECK(batch->data.empty());
    CHECK(batch->notes.size() == 5);  // what was left out, and why
  }
  CHECK(loader->next() == nullptr);
  CHECK(loader->status());
  CHECK(loader->report().bad_samples == 10);
}

TEST_CASE("each sample says what it shows of its image, also where bad ones are left out or zero") {
  test::Files files;
  for (unsigned i = 0; i < 20; ++i) files.push_back(test::make_jpeg({.size = {60 + i, 50}, .seed = i}));
  files[3].resize(100);
  files[11].clear();
  const Transform transform = {.geometry = RandomResizedCrop{.size = {16, 12}}, .flip_probability = 0.5};
  for (const BadSamples bad : {BadSamples::kSkip, BadSamples::kZero}) {
    const BatchOptions options = {
        .batch_size = 8, .bad_samples = bad, .seed = 5, .transform = transform, .workers = {.threads = 2}};
    auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files), options);
    REQUIRE(loader);
    while (const Batch* batch = (*loader)->next()) {
      REQUIRE(batch->shown.size() == batch->indices.size());
      for (std::size_t i = 0; i < batch->shown.size(); ++i) {
        const SampleIndex index = batch->indices[i];
        const ShownPart& shown = batch->shown[i];
        if (batch->states[i] == SampleState::kBad) {
          CHECK(shown.image == Size{});
          continue;
        }
        CHECK(shown.image == Size{60 + index, 50});
        Random random({.seed = 5, .epoch = 0, .position = index, .sample = index});
        const CropPlan plan = plan_crop(transform, shown.image, random);
        CHECK(shown.plan.part.x == plan.part.x);
        CHECK(shown.plan.part.height == plan.part.height);
        CHECK(shown.plan.mirror == plan.mirror);
      }
    }
  }
}

TEST_CASE("a run resumed after a batch goes on with the same bytes") {
  const Files files = make_files(30, {6, 17});
  BatchOptions options = small_options();
  options.bad_samples = BadSamples::kSkip;
  const std::vector<Seen> whole_run = all_batches(*start(files, options));
  for (std::size_t done : {1U, 2U, 5U}) {
    options.first_batch = done;
    const std::vector<Seen> rest = all_batches(*start(files, options, 1, whole_run[done - 1].next_position));
    CHECK(rest == std::vector<Seen>(whole_run.begin() + static_cast<std::ptrdiff_t>(done), whole_run.end()));
  }
}

TEST_CASE("batches go to the caller's memory") {
  const Files files = make_files(12);
  BatchOptions options = small_options();
  options.batches_ahead = 1;
  std::array<std::vector<std::byte>, 2> memory;
  for (std::vector<std::byte>& one : memory) {
    one.resize(batch_bytes(options));
    options.memory.emplace_back(one);
  }
  auto loader = start(files, options);
  for (std::size_t i = 0; i < 3; ++i) {
    const Batch* batch = loader->next();
    REQUIRE(batch != nullptr);
    CHECK(batch->data.data() == memory[i % 2].data());
  }
  options.memory.pop_back();
  CHECK_FALSE(BatchLoader::start(std::make_unique<MemorySource>(files), options));
}

TEST_CASE("a paused loader takes nothing until it is resumed") {
  const Files files = make_files(40);
  auto source = std::make_unique<MemorySource>(files, UINT64_MAX);
  const MemorySource& watched = *source;
  auto loader = BatchLoader::start(std::move(source), small_options());
  REQUIRE(loader);
  REQUIRE((*loader)->next() != nullptr);
  (*loader)->pause();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // one sample may be on its way through the feeder
  const std::uint64_t taken = watched.handed_out();
  for (std::uint64_t left = taken / 4 - 1; left > 0; --left) REQUIRE((*loader)->next() != nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(watched.handed_out() <= taken + 1);
  (*loader)->resume();
  for (int i = 0; i < 20; ++i) REQUIRE((*loader)->next() != nullptr);
}

TEST_CASE("options that make no sense are refused") {
  const Files files = make_files(1);
  const auto refused = [&](auto change) {
    BatchOptions options = small_options();
    change(options);
    const auto loader = BatchLoader::start(std::make_unique<MemorySource>(files), options);
    return !loader && loader.error().code == io::ErrorCode::kInvalidArgument;
  };
  CHECK(refused([](BatchOptions& options) { options.batch_size = 0; }));
  CHECK(refused([](BatchOptions& options) { options.batches_ahead = 0; }));
  CHECK(refused([](BatchOptions& options) { options.batches_lent = 0; }));
  CHECK(refused([](BatchOptions& options) { options.transform.flip_probability = 1.5; }));
  CHECK(refused([](BatchOptions& options) { options.transform.geometry = Resize{.size = {0, 4}}; }));
  CHECK(refused([](BatchOptions& options) { options.transform.geometry = RandomResizedCrop{.scale_min = 2}; }));
  CHECK(refused([](BatchOptions& options) { options.transform.jitter = ColorJitter{.hue = 0.6}; }));
}

}  // namespace
}  // namespace headrace::decode::batch_loader_test
