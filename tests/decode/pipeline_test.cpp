// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/pipeline.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"

namespace headrace::decode {
namespace {

using test::Files;
using test::MemorySource;

// Sizes differ widely, so that threads finish out of order.
Files make_files(unsigned count) {
  Files files;
  for (unsigned i = 0; i < count; ++i) {
    files.push_back(test::make_jpeg({.size = {16 + (i * 37) % 200, 16 + (i * 53) % 150}, .seed = i}));
  }
  return files;
}

std::unique_ptr<Pipeline> start(std::unique_ptr<SampleSource> source, unsigned threads, std::size_t images_ahead = 0) {
  auto pipeline = Pipeline::start(std::move(source), {.workers = {.threads = threads}, .images_ahead = images_ahead});
  REQUIRE(pipeline);
  return std::move(*pipeline);
}

TEST_CASE("decoded samples come in the order of the source, with one thread and with eight") {
  const Files files = make_files(40);
  for (unsigned threads : {1U, 8U}) {
    auto pipeline = start(std::make_unique<MemorySource>(files, 2), threads);
    for (std::uint64_t i = 0; i < 80; ++i) {
      const DecodedSample* sample = pipeline->next();
      REQUIRE(sample != nullptr);
      REQUIRE(sample->status);
      CHECK(sample->epoch == i / 40);
      CHECK(sample->position == i % 40);
      CHECK(sample->label == i % 40 % 10);
      const test::ReferenceImage expected = test::reference_decode(files[i % 40]);
      CHECK(std::ranges::equal(sample->image.bytes(), expected.pixels));
    }
    CHECK(pipeline->next() == nullptr);
    CHECK(pipeline->next() == nullptr);
  }
}

TEST_CASE("a file that is no image is reported with its name and the next ones follow") {
  Files files = make_files(5);
  files[2] = test::Bytes(100, std::byte{7});
  auto pipeline = start(std::make_unique<MemorySource>(files), 3);
  for (std::uint64_t i = 0; i < 5; ++i) {
    const DecodedSample* sample = pipeline->next();
    REQUIRE(sample != nullptr);
    CHECK(sample->status.has_value() == (i != 2));
    if (!sample->status) CHECK(sample->status.error().message().find("file-2") != std::string::npos);
  }
}

TEST_CASE("a consumer that does not come holds the source back") {
  const Files files = make_files(200);
  auto source = std::make_unique<MemorySource>(files);
  const MemorySource& watched = *source;
  auto pipeline = start(std::move(source), 2, 6);
  REQUIRE(pipeline->next() != nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(watched.handed_out() <= 6 + 1);  // the slots, and the sample that the feeder waits with
}

TEST_CASE("an empty source ends at once") {
  const Files files = make_files(1);
  auto pipeline = start(std::make_unique<MemorySource>(files, 0), 2);
  CHECK(pipeline->next() == nullptr);
}

TEST_CASE("stopping from another thread ends a consumer that waits") {
  const Files files = make_files(8);
  auto pipeline = start(std::make_unique<MemorySource>(files, UINT64_MAX), 2);
  std::thread stopper([&] { pipeline->stop(); });
  while (pipeline->next() != nullptr) {
  }
  stopper.join();
}

TEST_CASE("more images ahead than the queue can hold are refused") {
  const Files files = make_files(1);
  CHECK_FALSE(Pipeline::start(std::make_unique<MemorySource>(files), {.workers = {}, .images_ahead = 100'000}));
}

}  // namespace
}  // namespace headrace::decode
