// SPDX-License-Identifier: Apache-2.0
// Pipelines that are stopped at any moment leave no thread, descriptor or memory behind.
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <random>
#include <thread>

#include <doctest/doctest.h>
#include <malloc.h>

#include "headrace/decode/batch_loader.h"
#include "headrace/decode/pipeline.h"
#include "headrace/io/log.h"

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"

namespace headrace::decode::lifetime_test {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t entries_in(const char* folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

struct Held {
  std::ptrdiff_t threads = entries_in("/proc/self/task");
  std::ptrdiff_t descriptors = entries_in("/proc/self/fd");
  std::size_t bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
};

void run_batches(const test::Files& files, std::mt19937& random) {
  BatchOptions options = {.batch_size = 1 + random() % 5,
                          .bad_samples = BadSamples::kSkip,
                          .transform = {.geometry = RandomResizedCrop{.size = {8, 8}}},
                          .workers = {.threads = 1 + static_cast<unsigned>(random() % 3)}};
  auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files, UINT64_MAX), options);
  REQUIRE(loader);
  for (std::size_t batches = random() % 4; batches > 0; --batches) REQUIRE((*loader)->next() != nullptr);
  if (random() % 4 == 0) (*loader)->pause();
  if (random() % 2 == 0) (*loader)->stop();
}

void run_images(const test::Files& files, std::mt19937& random) {
  auto pipeline = Pipeline::start(std::make_unique<test::MemorySource>(files, random() % 3),
                                  {.workers = {.threads = 1 + static_cast<unsigned>(random() % 3)}});
  REQUIRE(pipeline);
  for (std::size_t images = random() % 8; images > 0; --images) {
    if ((*pipeline)->next() == nullptr) break;
  }
}

// HEADRACE_STRESS: 10 000 times, which takes seconds, or minutes under the thread sanitizer.
TEST_CASE("starting and stopping at random moments leaves nothing behind") {
  io::set_log_level(io::LogLevel::kError);  // bad samples are expected here
  const int cycles = std::getenv("HEADRACE_STRESS") != nullptr ? 10'000 : 300;
  test::Files files;
  for (unsigned i = 0; i < 6; ++i) files.push_back(test::make_jpeg({.size = {24, 24}, .seed = i}));
  files.emplace_back(50, std::byte{1});
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) run_batches(files, random);  // allocator arenas and thread stacks settle
  const Held before;
  for (int i = 0; i < cycles; ++i) {
    run_batches(files, random);
    run_images(files, random);
  }
  const Held after;
  CHECK(after.threads == before.threads);
  CHECK(after.descriptors == before.descriptors);
  // A leak of one slot's bookkeeping per cycle would be more than this.
  CHECK(after.bytes < before.bytes + 64 * 1024 + static_cast<std::size_t>(cycles) * 16);
}

}  // namespace
}  // namespace headrace::decode::lifetime_test
