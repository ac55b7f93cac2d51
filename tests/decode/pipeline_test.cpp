// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/pipeline.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <sched.h>

#include "headrace/decode/usable_cores.h"

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"

namespace headrace::decode::pipeline_test {
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

// The names of this process's threads, and how many CPUs each may run on.
std::multimap<std::string, int> running_threads() {
  std::multimap<std::string, int> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    sched_getaffinity(std::stoi(task.path().filename()), sizeof cpus, &cpus);
    threads.emplace(name, CPU_COUNT(&cpus));
  }
  return threads;
}

TEST_CASE("threads have names, and are pinned on request only") {
  const Files files = make_files(4);
  const int all_cpus = static_cast<int>(allowed_cpus().size());
  for (const bool pinned : {false, true}) {
    auto pipeline = Pipeline::start(std::make_unique<MemorySource>(files, UINT64_MAX),
                                    {.workers = {.threads = 2, .pin_threads = pinned}, .images_ahead = 8});
    REQUIRE(pipeline);
    const auto ready = [&](const std::multimap<std::string, int>& threads) {
      const auto is = [&](const char* name, int cpus) {
        const auto found = threads.find(name);
        return found != threads.end() && found->second == cpus;
      };
      const int of_decoder = pinned ? 1 : all_cpus;
      return is("hr-feed", all_cpus) && is("hr-decode-0", of_decoder) && is("hr-decode-1", of_decoder);
    };
    // They name and pin themselves some time after the start; ctest's time limit ends a wait in vain.
    while (!ready(running_threads())) REQUIRE((*pipeline)->next() != nullptr);
  }
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

// Decodes only after the pool was closed.
class LateJob final : public Job {
 public:
  void run(Worker& worker, std::uint32_t) noexcept override {
    begun.set_value();
    closed.get_future().wait();
    Image image;
    status.set_value(worker.decoder.decode(test::make_jpeg({}), image));
  }
  std::promise<void> begun;
  std::promise<void> closed;
  std::promise<Status> status;
};

TEST_CASE("stopping ends a decode that is under way") {
  StageCounters counters;
  LateJob job;
  WorkerPool pool({.threads = 1}, 4, counters);
  REQUIRE(pool.submit({&job, 0}));
  job.begun.get_future().wait();
  pool.close();
  job.closed.set_value();
  const Status status = job.status.get_future().get();
  REQUIRE_FALSE(status);
  CHECK(status.error().code == io::ErrorCode::kCancelled);
}

TEST_CASE("more images ahead than the queue can hold are refused") {
  const Files files = make_files(1);
  CHECK_FALSE(Pipeline::start(std::make_unique<MemorySource>(files), {.workers = {}, .images_ahead = 100'000}));
}

}  // namespace
}  // namespace headrace::decode::pipeline_test
