// SPDX-License-Identifier: Apache-2.0
// Batches on loan: whatever their number and the order in which threads give them back.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "headrace/decode/batch_loader.h"
#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"

namespace headrace::decode::lent_batches_test {
namespace {

using Bytes = std::vector<std::byte>;

const test::Files& files() {
  static const test::Files all = [] {
    io::set_log_level(io::LogLevel::kError);  // bad samples are expected here
    test::Files made;
    for (unsigned i = 0; i < 17; ++i) made.push_back(test::make_jpeg({.size = {24 + i, 40 - i}, .seed = i}));
    made[5].resize(300);
    made[11].resize(300);
    return made;
  }();
  return all;
}

std::unique_ptr<BatchLoader> start(const BatchOptions& options) {
  constexpr std::uint64_t kEpochs = 3;
  auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files(), kEpochs), options);
  REQUIRE(loader);
  return std::move(*loader);
}

Bytes copy_of(const Batch& batch) {
  return {batch.data.begin(), batch.data.end()};
}

std::vector<Bytes> batches_one_by_one(const BatchOptions& options) {
  std::vector<Bytes> all;
  auto loader = start(options);
  while (const Batch* batch = loader->next()) all.push_back(copy_of(*batch));
  return all;
}

// By calls that wait for next to nothing, so that most of them end within a batch.
LentBatch lend_by_and_by(BatchLoader& loader) {
  for (;;) {
    Result<LentBatch> batch = loader.lend_until(std::chrono::steady_clock::now() + std::chrono::microseconds(20));
    if (batch) return std::move(*batch);
    RC_ASSERT(batch.error().code == io::ErrorCode::kTimedOut);
  }
}

struct Loan {
  LentBatch batch;
  Bytes as_lent;
  [[nodiscard]] bool unchanged() const { return std::ranges::equal(batch->data, as_lent); }
};

// Threads that give back what they are handed, and look before whether it is what it was.
class Returners {
 public:
  Returners() {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Returners() { finish(); }

  void hand(std::unique_ptr<Loan> loan) {
    io::MutexLock lock(mutex_);
    handed_.push_back(std::move(loan));
    changed_.notify_one();
  }
  // True if nothing that was handed over had changed.
  bool finish() {
    {
      io::MutexLock lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return unchanged_;
  }

 private:
  void work() {
    while (const std::unique_ptr<Loan> loan = take()) {
      if (!loan->unchanged()) unchanged_ = false;
    }
  }

  // nullptr: no further one comes.
  std::unique_ptr<Loan> take() {
    io::MutexLock lock(mutex_);
    while (!over_ && handed_.empty()) changed_.wait(lock);
    if (handed_.empty()) return nullptr;
    std::unique_ptr<Loan> loan = std::move(handed_.back());
    handed_.pop_back();
    return loan;
  }

  io::Mutex mutex_;
  io::CondVar changed_;
  std::vector<std::unique_ptr<Loan>> handed_ HEADRACE_GUARDED_BY(mutex_);
  bool over_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::atomic<bool> unchanged_ = true;
  std::vector<std::thread> threads_;
};

BatchOptions draw_options() {
  const auto batches_lent = *rc::gen::inRange<std::size_t>(1, 6);
  const auto bad_samples = *rc::gen::element(BadSamples::kSkip, BadSamples::kZero);
  const std::size_t ahead_least = batches_lent == 1 || bad_samples == BadSamples::kSkip ? 1 : 0;
  const BatchOptions options = {
      .batch_size = *rc::gen::inRange<std::size_t>(1, 8),
      .drop_last = *rc::gen::arbitrary<bool>(),
      .bad_samples = bad_samples,
      .seed = 3,
      .transform = {.geometry = RandomResizedCrop{.size = {6, 5}}},
      .format = {.type = ElementType::kUint8},
      .workers = {.threads = *rc::gen::inRange(1U, 4U)},
      .batches_ahead = *rc::gen::inRange<std::size_t>(ahead_least, 4),
      .batches_lent = batches_lent,
  };
  return options;
}

// Takes a loan out of those that the consumer holds, in any order.
std::unique_ptr<Loan> pick(std::vector<std::unique_ptr<Loan>>& held, std::mt19937& random) {
  std::swap(held[random() % held.size()], held.back());
  std::unique_ptr<Loan> loan = std::move(held.back());
  held.pop_back();
  return loan;
}

TEST_CASE("no batch is written while it is lent, whatever the order in which threads give back") {
  CHECK(rc::check([] {
    const BatchOptions options = draw_options();
    const std::vector<Bytes> expected = batches_one_by_one(options);
    std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
    // Where the consumer ends: with all batches, or in the middle, with loans that outlive the loader.
    const std::size_t end = random() % 2 == 0 ? expected.size() : random() % (expected.size() + 1);
    Returners returners;
    std::vector<std::unique_ptr<Loan>> held;
    auto loader = start(options);
    std::size_t count = 0;
    for (; count < end; ++count) {
      while (held.size() == options.batches_lent || (!held.empty() && random() % 3 == 0)) {
        std::unique_ptr<Loan> loan = pick(held, random);
        if (random() % 2 == 0)
          returners.hand(std::move(loan));
        else
          RC_ASSERT(loan->unchanged());
      }
      auto loan = std::make_unique<Loan>();
      loan->batch = random() % 2 == 0 ? loader->lend() : lend_by_and_by(*loader);
      RC_ASSERT(loan->batch != nullptr);
      loan->as_lent = copy_of(*loan->batch);
      RC_ASSERT(loan->as_lent == expected[count]);
      held.push_back(std::move(loan));
    }
    if (end == expected.size() && held.size() < options.batches_lent) RC_ASSERT(lend_by_and_by(*loader) == nullptr);
    loader.reset();
    for (const std::unique_ptr<Loan>& loan : held) RC_ASSERT(loan->unchanged());
    while (!held.empty()) returners.hand(pick(held, random));
    RC_ASSERT(returners.finish());
  }));
}

TEST_CASE("a consumer that has all batches it may have sleeps until one comes back, or the loader is stopped") {
  const BatchOptions options = {.batch_size = 2,
                                .bad_samples = BadSamples::kSkip,
                                .transform = {.geometry = RandomResizedCrop{.size = {6, 5}}},
                                .workers = {.threads = 2},
                                .batches_lent = 2};
  auto loader = start(options);
  LentBatch first = loader->lend();
  LentBatch second = loader->lend();
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  const Result<LentBatch> at_once = loader->lend_until(std::chrono::steady_clock::now());
  REQUIRE_FALSE(at_once);
  CHECK(at_once.error().code == io::ErrorCode::kTimedOut);
  std::thread returner([&] { first.reset(); });
  LentBatch third = loader->lend();
  returner.join();
  CHECK(third != nullptr);
  std::thread stopper([&] { loader->stop(); });
  CHECK(loader->lend() == nullptr);
  stopper.join();
}

// One whose source gave up waiting for its server.
class TimedOutSource final : public SampleSource {
 public:
  std::optional<RawSample> next() override {
    return RawSample{.epoch = 0,
                     .position = 0,
                     .index = 0,
                     .label = 0,
                     .bytes = io::make_error(io::ErrorCode::kTimedOut, "get cat/1.jpg"),
                     .pin = nullptr,
                     .plan = std::nullopt};
  }
  void cancel() override {}
  std::string path(SampleIndex /*index*/) const override { return "cat/1.jpg"; }
};

TEST_CASE("a sample that its server gave no answer for is an error, and not a batch that takes longer") {
  const BatchOptions options = {.batch_size = 2,
                                .bad_samples = BadSamples::kRaise,
                                .transform = {.geometry = RandomResizedCrop{.size = {6, 5}}},
                                .workers = {.threads = 1}};
  auto loader = BatchLoader::start(std::make_unique<TimedOutSource>(), options);
  REQUIRE(loader);
  CHECK((*loader)->lend() == nullptr);
  REQUIRE_FALSE((*loader)->status());
  CHECK((*loader)->status().error().code == io::ErrorCode::kSystem);
  CHECK((*loader)->status().error().message().find("cat/1.jpg") != std::string::npos);
}

}  // namespace
}  // namespace headrace::decode::lent_batches_test
