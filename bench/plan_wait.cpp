// SPDX-License-Identifier: Apache-2.0
// How long a thread that answers a READ is held up by the plan of a large data set, while that is changed.
//
//   plan_wait --samples 10000000 --lanes 128
//
// The samples are made up: names and sizes, no files. One thread does what a pusher does with the plan, another one
// opens along the order, and a third asks and tells what each READ does. Meanwhile the plan is given another budget,
// another order, a reader that went elsewhere, and the next epoch. The same of what decides which samples a disk tier
// holds, while a second order begins, its next epoch, and while it ends: MIN is in force meanwhile. Prints one JSON
// line for each: how long that took, the longest READ, and the longest that the same thread was held up when it asked
// nobody, which is the scheduler's.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/cache/keep/placement.h"
#include "headrace/cache/order.h"
#include "headrace/fuse/push/shared_plan.h"
#include "headrace/io/scanner.h"

namespace {

namespace cache = headrace::cache;
namespace fuse = headrace::fuse;
namespace io = headrace::io;
using cache::SampleIndex;
using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t kSampleBytes = 110'000;
constexpr std::uint32_t kFolders = 1000;

[[noreturn]] void fail(const std::string& message) {
  throw std::runtime_error(message);
}

// Each folder with as many files as the others.
cache::Catalog make_catalog(std::uint64_t samples) {
  io::ScannedTree tree;
  tree.directories.resize(kFolders + 1);
  const auto add = [](io::ScannedDirectory& folder, const std::string& name, io::ScannedEntry entry) {
    entry.name_offset = static_cast<std::uint32_t>(folder.names.size());
    entry.name_bytes = static_cast<std::uint16_t>(name.size());
    folder.names += name;
    folder.entries.push_back(entry);
  };
  for (std::uint32_t i = 0; i <= kFolders; ++i) {
    tree.directories[i].readable = true;
    tree.directories[i].attributes.mode = S_IFDIR | 0755;
  }
  for (std::uint32_t i = 1; i <= kFolders; ++i) {
    io::ScannedDirectory& folder = tree.directories[i];
    const std::string own = fmt::format("class-{:04}", i);
    folder.parent = 0;
    folder.name_offset = static_cast<std::uint32_t>(tree.directories[0].names.size());
    folder.name_bytes = static_cast<std::uint16_t>(own.size());
    add(tree.directories[0], own, {.attributes = {}, .directory = i});
    for (std::uint64_t k = 0; k < samples / kFolders; ++k) {
      io::ScannedEntry file;
      file.attributes.mode = S_IFREG | 0644;
      file.attributes.size_bytes = kSampleBytes;
      file.attributes.inode = std::uint64_t{i} * samples + k + 1;
      add(folder, fmt::format("{:08}.jpg", k), file);
    }
  }
  auto catalog = cache::build_catalog(std::move(tree), {}, "/made-up");
  if (!catalog) fail(catalog.error().message());
  return std::move(*catalog);
}

std::shared_ptr<const cache::Order> make_order(int seed, unsigned lanes, std::uint64_t samples) {
  const std::string spec =
      fmt::format("torch-distributed:seed={},replicas=8,rank=0-7,batch=32,workers={}", seed, lanes / 8);
  auto order = cache::make_order(spec, {.sample_count = samples});
  if (!order) fail(order.error().message());
  return std::move(*order);
}

double milliseconds(steady_clock::duration time) {
  return duration<double, std::milli>(time).count();
}

// Runs a step again and again, on a thread of its own.
class Looping {
 public:
  explicit Looping(std::function<void()> step)
      : thread_([this, step = std::move(step)] {
          while (!stop_.load()) step();
        }) {}
  ~Looping() {
    stop_.store(true);
    thread_.join();
  }
  Looping(const Looping&) = delete;
  Looping& operator=(const Looping&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// What READs ask, and how long the longest took.
class Reads {
 public:
  using Ask = std::function<void(SampleIndex sample)>;
  Reads(std::uint64_t samples, Ask ask) : samples_(samples), ask_(std::move(ask)), thread_([this] { step(); }) {}
  void begin() {
    longest_ns_.store(0);
    idle_ns_.store(0);
    count_.store(0);
  }
  [[nodiscard]] double longest_ms() const { return static_cast<double>(longest_ns_.load()) / 1e6; }
  [[nodiscard]] double idle_ms() const { return static_cast<double>(idle_ns_.load()) / 1e6; }
  [[nodiscard]] std::uint64_t count() const { return count_.load(); }

 private:
  void step() {
    next_ = (next_ * 6364136223846793005ULL + 1442695040888963407ULL);
    const auto sample = static_cast<SampleIndex>((next_ >> 33) % samples_);
    const auto begin = steady_clock::now();
    ask_(sample);
    const auto end = steady_clock::now();
    while (steady_clock::now() - end < end - begin) continue;  // the same time without asking
    const auto idle = steady_clock::now() - end - (end - begin);
    note(longest_ns_, end - begin);
    note(idle_ns_, idle);
    count_.fetch_add(1);
    std::this_thread::sleep_for(microseconds(200));
  }
  static void note(std::atomic<std::int64_t>& longest, steady_clock::duration time) {
    longest.store(std::max<std::int64_t>(longest.load(), time.count()));
  }
  const std::uint64_t samples_;
  const Ask ask_;
  std::uint64_t next_ = 1;
  std::atomic<std::int64_t> longest_ns_ = 0;
  std::atomic<std::int64_t> idle_ns_ = 0;
  std::atomic<std::uint64_t> count_ = 0;
  Looping thread_;  // last: it uses the others
};

// Takes what the plan wants next and says that it is pushed. False: it wants nothing.
bool push_one(fuse::SharedPlan& plan) {
  return plan.use([](fuse::PushPlan& own) {
    const auto sample = own.next_fetch();
    if (!sample) return false;
    while (own.next_victim(own.pages().bytes_of(*sample))) continue;
    const bool placed = own.place(*sample);
    own.on_fetched(*sample, own.generation(), placed ? fuse::Landing::kPushed : fuse::Landing::kNoRoom);
    return true;
  });
}

// 10 000 opens a second along an epoch.
class Opens {
 public:
  Opens(fuse::SharedPlan& plan, const cache::Order& order, std::uint64_t epoch) : plan_(plan) {
    auto samples = order.epoch(epoch);
    if (!samples) fail(samples.error().message());
    samples_ = std::move(*samples);
  }
  void jump_to(double part) { next_.store(static_cast<std::size_t>(part * static_cast<double>(samples_.size()))); }
  void step() {
    constexpr std::size_t kBatch = 20;
    const std::size_t at = next_.fetch_add(kBatch);
    if (at + kBatch <= samples_.size()) plan_.on_opens(std::span(samples_).subspan(at, kBatch));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

 private:
  fuse::SharedPlan& plan_;
  std::vector<SampleIndex> samples_;
  std::atomic<std::size_t> next_ = 0;
};

// What changes, and waits until that is done.
using Change = std::function<void()>;

void time(const char* what, Reads& reads, const Change& change) {
  reads.begin();
  const auto begin = steady_clock::now();
  change();
  const double took = milliseconds(steady_clock::now() - begin);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // what follows from it, such as a search for the reader
  std::printf(
      "{\"what\": \"%s\", \"change_ms\": %.1f, \"longest_read_ms\": %.3f, \"longest_idle_ms\": %.3f, \"reads\": "
      "%llu}\n",
      what, took, reads.longest_ms(), reads.idle_ms(), static_cast<unsigned long long>(reads.count()));
  std::fflush(stdout);
}

void time_plan(const cache::Catalog& catalog, unsigned lanes) {
  const std::uint64_t samples = catalog.sample_count();
  const auto order = make_order(0, lanes, samples);
  fuse::TakeoverHead head;
  std::vector<fuse::SamplePages> pages(samples);
  const std::uint64_t budget = samples * kSampleBytes / 10;
  fuse::SharedPlan plan(catalog, {.head = &head, .changed = {}, .pages = pages},
                        {.budget_bytes = budget, .order = {.order = order}}, [] {});
  plan.start({});
  Opens opens(plan, *order, 0);
  while (push_one(plan)) continue;
  const Looping pusher([&] { std::this_thread::sleep_for(microseconds(push_one(plan) ? 50 : 500)); });
  const Looping opener([&] { opens.step(); });
  Reads reads(samples, [&](SampleIndex sample) {
    static_cast<void>(plan.lacks(sample));
    plan.on_read(sample, {.offset = 0, .length = kSampleBytes});
  });
  const auto time_change = [&](const char* what, const Change& change) {
    time(what, reads, [&] {
      change();
      while (plan.has_changes()) std::this_thread::sleep_for(microseconds(100));
    });
  };
  time_change("steady", [] { std::this_thread::sleep_for(std::chrono::seconds(2)); });
  time_change("half of the budget", [&] { plan.set_budget(budget / 2); });
  time_change("the whole budget", [&] { plan.set_budget(budget); });
  time_change("a reader elsewhere", [&] { opens.jump_to(0.5); });
  time_change("events were lost", [&] { plan.on_overflow(); });
  time_change("another order", [&] { plan.set_order({.order = make_order(1, lanes, samples)}); });
  time_change("the next epoch", [&] { plan.set_order({.order = order, .epoch = 1}); });
  plan.stop();
}

// A tier that has one sample in three, and room for as many.
void time_tier(const cache::Catalog& catalog, unsigned lanes) {
  const std::uint64_t samples = catalog.sample_count();
  cache::Placement placement(catalog, {samples * kSampleBytes / 3},
                             [](std::size_t, SampleIndex sample) { return sample % 3 == 0; });
  Reads reads(samples, [&](SampleIndex sample) {
    static_cast<void>(placement.wants(0, sample));
    if (placement.evicts()) static_cast<void>(placement.on_read(sample));
  });
  const auto one = make_order(0, lanes, samples);
  const auto other = make_order(1, lanes, samples);
  static_cast<void>(placement.follow(*one, 0));
  cache::Placement::JobId job = 0;
  time("tier: a second order", reads, [&] {
    job = placement.follow(*other, 0);
    static_cast<void>(placement.settle());
  });
  if (!placement.evicts()) fail("MIN is not in force");
  time("tier: its next epoch", reads, [&] { static_cast<void>(placement.enter(job, 1)); });
  time("tier: it ends", reads, [&] { placement.unfollow(job); });
}

void run(std::uint64_t samples, unsigned lanes) {
  const cache::Catalog catalog = make_catalog(samples);
  if (catalog.sample_count() == 0) fail("no samples");
  time_plan(catalog, lanes);
  time_tier(catalog, lanes);
}

}  // namespace

int main(int argc, char** argv) try {
  std::uint64_t samples = 10'000'000;
  unsigned lanes = 128;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view word = argv[i];
    if (word == "--samples") samples = std::strtoull(argv[i + 1], nullptr, 10);
    if (word == "--lanes") lanes = static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10));
  }
  run(samples, lanes);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "plan_wait: %s\n", error.what());
  return 1;
}
