// SPDX-License-Identifier: Apache-2.0
// Orders that a mount finds in the opens. tests/cache/order/order_book_test.cpp says which order goes first.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "fuse/mounted.h"

namespace headrace::fuse::learned_order_test {
namespace {

using test::Mounted;
using test::need_fuse;
using test::read_file;

constexpr unsigned kSampleCount = 400;
constexpr std::size_t kSampleBytes = 2 * 4096;

std::string path_of(const Mounted& mounted, cache::SampleIndex sample) {
  const cache::Catalog& catalog = mounted.store().catalog();
  return mounted.file(catalog.path(catalog.sample_entry(sample)));
}

void read_epoch(const Mounted& mounted, const cache::Order& order, std::uint64_t epoch) {
  const std::vector<cache::SampleIndex> samples = order.epoch(epoch).value();
  for (const cache::SampleIndex sample : samples) {
    REQUIRE(read_file(path_of(mounted, sample)).size() == kSampleBytes);
    std::this_thread::sleep_for(std::chrono::microseconds(500));  // loaders are no faster; the learner is not either
  }
}

std::shared_ptr<const cache::Order> torch_order() {
  return std::move(*cache::make_order("torch-distributed:seed=0", {.sample_count = kSampleCount}));
}

// A mount of the samples, of which memory holds a quarter, that nobody tells the order.
void start_unknown(Mounted& mounted) {
  mounted.write_samples(kSampleCount, kSampleBytes);
  mounted.options.ram_bytes = kSampleCount / 4 * kSampleBytes;
  mounted.options.orders.learn = true;
  mounted.start();
  mounted.settle();
}

TEST_CASE("an order that nobody gave is learned from the opens") {
  need_fuse();
  Mounted mounted;
  start_unknown(mounted);
  const std::shared_ptr<const cache::Order> order = torch_order();
  // Half an epoch is enough for the learner, whose thread may need the time of some more on a busy machine.
  for (std::uint64_t epoch = 0; epoch < 60 && mounted.mount().stats().order_found_by.empty(); ++epoch) {
    read_epoch(mounted, *order, epoch);
  }
  CHECK(mounted.mount().stats().order_found_by != "");
  CHECK(mounted.mount().stats().order_confidence_bits > 40);  // no lock comes with less
  CHECK(mounted.mount().stats().order_opens >= 16);
  CHECK(mounted.mount().stats().order_search_cpu_seconds > 0);
  CHECK(mounted.mount().stats().order.starts_with(order->spec()));
}

TEST_CASE("train and val, whose orders were found, are followed as one order while they take turns") {
  need_fuse();
  constexpr unsigned kTrain = 400;
  constexpr unsigned kVal = 200;
  Mounted mounted;
  const std::string content(kSampleBytes, 'x');
  for (unsigned i = 0; i < kTrain + kVal; ++i)
    mounted.source().write(fmt::format("{}/{:05}.jpg", i < kTrain ? "train" : "val", i), content);
  mounted.options.ram_bytes = (kTrain + kVal) / 4 * kSampleBytes;
  mounted.options.orders.learn = true;
  mounted.start();
  mounted.settle();
  const auto train = *cache::make_order("torch-distributed:seed=0", {.sample_count = kTrain});
  const auto val = *cache::make_order("torch-subset:range=400:600,of=sequential", {.sample_count = kTrain + kVal});
  const auto is_known = [&] {
    const std::string order = mounted.mount().stats().order;
    return order.find("train=torch-distributed:seed=0") != std::string::npos &&
           order.find("val=sequential") != std::string::npos;
  };
  // One epoch or two are enough, as above.
  for (std::uint64_t epoch = 0; epoch < 60 && !is_known(); ++epoch) {
    read_epoch(mounted, *train, epoch);
    read_epoch(mounted, *val, epoch);
  }
  CHECK(is_known());
  CHECK(mounted.mount().stats().orders_given_up == 0);
}

TEST_CASE("what a list names that is read through the mount is known as what is shuffled") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  const auto listed = [](unsigned line) { return Mounted::sample_name(line * 147 % kSampleCount); };  // its own order
  std::string lines = "image,label\n";
  for (unsigned line = 0; line < kSampleCount; ++line) lines += listed(line) + ",0\n";
  mounted.source().write("train.csv", lines);
  mounted.options.ram_bytes = kSampleCount / 4 * kSampleBytes;
  mounted.options.orders.learn = true;
  mounted.start();
  mounted.settle();
  CHECK(read_file(mounted.file("train.csv")) == lines);
  const std::shared_ptr<const cache::Order> order = torch_order();
  // On a busy machine the search, which has idle priority, takes minutes.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(200);
  const auto is_over = [&] {
    return !mounted.mount().stats().order_found_by.empty() || std::chrono::steady_clock::now() > deadline;
  };
  for (std::uint64_t epoch = 0; !is_over(); ++epoch) {
    const std::vector<cache::SampleIndex> positions = order->epoch(epoch).value();
    for (std::size_t i = 0; i < positions.size() && !(i % 16 == 0 && is_over()); ++i) {
      REQUIRE(read_file(mounted.file(listed(positions[i]))).size() == kSampleBytes);
      // An epoch of 4 s: under a sanitizer a shorter one is over before all that is tried over lists was.
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  CHECK(mounted.mount().stats().order_found_by == "list");
  CHECK(mounted.mount().stats().order.find("torch-distributed:seed=0") != std::string::npos);
}

TEST_CASE("images and masks that are read together are followed as one order") {
  need_fuse();
  constexpr unsigned kPairs = 1000;
  Mounted mounted;
  const std::string content(kSampleBytes, 'x');
  for (const char* folder : {"images", "masks"}) {
    for (unsigned i = 0; i < kPairs; ++i) mounted.source().write(fmt::format("{}/{:05}.jpg", folder, i), content);
  }
  mounted.options.ram_bytes = kPairs / 2 * kSampleBytes;
  mounted.options.orders.learn = true;
  mounted.start();
  mounted.settle();
  const auto order = *cache::make_order("torch-distributed:seed=0", {.sample_count = kPairs});
  const auto is_known = [&] { return mounted.mount().stats().order.starts_with("together:images+masks,of="); };
  for (std::uint64_t epoch = 0; epoch < 30 && !is_known(); ++epoch) {
    const std::vector<cache::SampleIndex> images = order->epoch(epoch).value();
    for (const cache::SampleIndex image : images) {
      for (const cache::SampleIndex sample : {image, static_cast<cache::SampleIndex>(image + kPairs)})
        REQUIRE(read_file(path_of(mounted, sample)).size() == kSampleBytes);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
  CHECK(is_known());
}

TEST_CASE("no order is looked for where all samples are held, until some are not") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  mounted.options.ram_bytes = 2 * kSampleCount * kSampleBytes;
  mounted.options.orders.learn = true;
  mounted.start();
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  const std::shared_ptr<const cache::Order> order = torch_order();
  std::uint64_t epoch = 0;
  for (; epoch < 3; ++epoch) read_epoch(mounted, *order, epoch);
  mounted.settle();
  CHECK(mounted.mount().stats().order_found_by == "");
  mounted.mount().set_ram_bytes(kSampleCount / 4 * kSampleBytes);
  for (; epoch < 60 && mounted.mount().stats().order_found_by.empty(); ++epoch) read_epoch(mounted, *order, epoch);
  CHECK(mounted.mount().stats().order_found_by != "");
}

TEST_CASE("an order that was set stays while it is read, and gives way to what is found in the opens when it is not") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  mounted.options.ram_bytes = kSampleCount / 4 * kSampleBytes;
  mounted.options.orders.learn = true;
  mounted.start();
  const std::shared_ptr<const cache::Order> order = torch_order();
  mounted.mount().set_order(order, 0);
  mounted.settle();
  read_epoch(mounted, *order, 0);
  mounted.settle();
  CHECK(mounted.mount().stats().order == order->spec());
  CHECK(mounted.mount().stats().order_found_by == "");
  mounted.mount().set_order(std::move(*cache::make_order("sequential", {.sample_count = kSampleCount})), 0);
  for (std::uint64_t epoch = 1; epoch < 60 && mounted.mount().stats().order_found_by.empty(); ++epoch) {
    read_epoch(mounted, *order, epoch);  // a few would do, as above
  }
  mounted.settle();
  const MountStats stats = mounted.mount().stats();
  CHECK(stats.order_given_up == "sequential");
  CHECK(stats.order.starts_with("torch-distributed:seed=0"));
  CHECK(stats.order_found_by != "");
}

TEST_CASE("a mount that looks for no order says so when it is told to learn") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(4, kSampleBytes);
  mounted.start();
  CHECK(mounted.mount().learn_order().error().code == io::ErrorCode::kUnsupported);
}

TEST_CASE("while the order is unknown what was not seen yet is pushed") {
  need_fuse();
  Mounted mounted;
  mounted.write_samples(kSampleCount, kSampleBytes);
  mounted.options.ram_bytes = kSampleCount / 8 * kSampleBytes;
  mounted.options.orders.learn = true;
  mounted.start();
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  CHECK(mounted.mount().stats().held_samples > 0);  // before the first open all are unseen
  mounted.settle();
  // Backwards, which is no order that a loader draws.
  for (cache::SampleIndex sample = kSampleCount; sample-- > 0;) {
    CHECK(read_file(path_of(mounted, sample)).size() == kSampleBytes);
    if (sample % 50 == 0) mounted.settle();
  }
  const MountStats stats = mounted.mount().stats();
  CHECK(stats.order_found_by == "");
  CHECK(stats.held_bytes <= stats.budget_bytes);
  CHECK(stats.hits > 0);
}

}  // namespace
}  // namespace headrace::fuse::learned_order_test
