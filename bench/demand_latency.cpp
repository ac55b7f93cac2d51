// SPDX-License-Identifier: Apache-2.0
// How long a read takes that somebody waits for, while others are read ahead.
//
//   demand_latency SOURCE [--ahead N] [--reads R] [--hard-disk]
//
// R samples (200), one after the other, each as soon as the one before has come; N reads ahead of other samples (0) are
// under way all the time. --hard-disk: the source is one, whatever the kernel says of it. Prints one JSON line; its
// "seconds" are the 99th percentile.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <xxhash.h>

#include "headrace/cache/store.h"

namespace {

namespace cache = headrace::cache;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string source;
  unsigned ahead = 0;
  unsigned reads = 200;
  bool hard_disk = false;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "demand_latency: %s\n", message.c_str());
  std::_Exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto number = [&] { return ++i < argc ? static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10)) : 0; };
    if (word == "--ahead") {
      options.ahead = number();
    } else if (word == "--reads") {
      options.reads = number();
    } else if (word == "--hard-disk") {
      options.hard_disk = true;
    } else {
      options.source = word;
    }
  }
  if (options.source.empty()) fail("SOURCE is missing");
  return options;
}

// Keeps `count` reads ahead under way for as long as it lives.
class ReadsAhead {
 public:
  ReadsAhead(cache::Store& store, std::vector<cache::EntryId> entries, unsigned count)
      : store_(store), entries_(std::move(entries)), free_(count), count_(count) {
    if (count > 0) thread_ = std::thread([this] { run(); });
  }
  ~ReadsAhead() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    for (unsigned i = 0; i < count_; ++i) free_.acquire();
  }
  ReadsAhead(const ReadsAhead&) = delete;
  ReadsAhead& operator=(const ReadsAhead&) = delete;
  [[nodiscard]] std::uint64_t ended() const { return ended_; }

 private:
  void run() {
    for (std::size_t i = 0; !stop_; ++i) {
      if (!free_.try_acquire_for(std::chrono::milliseconds(100))) {
        --i;
        continue;
      }
      const cache::EntryId entry = entries_[i % entries_.size()];
      const auto done = [this, entry](cache::Result<cache::View> view) {
        if (!view) fail(view.error().message());
        view->reset();
        store_.drop(entry);
        ++ended_;
        free_.release();
      };
      store_.read_async(entry, done, cache::ReadHint::kAhead);
    }
  }

  cache::Store& store_;
  const std::vector<cache::EntryId> entries_;
  std::counting_semaphore<> free_;
  const unsigned count_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> ended_ = 0;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  cache::StoreOptions store_options{.source = options.source, .ram_bytes = 256 << 20};
  if (options.hard_disk) store_options.source_rotational = true;
  auto store = cache::Store::open(store_options);
  if (!store) fail(store.error().message());
  const cache::Catalog& catalog = (*store)->catalog();
  std::vector<cache::EntryId> entries;
  for (cache::SampleIndex i = 0; i < catalog.sample_count(); ++i) entries.push_back(catalog.sample_entry(i));
  std::ranges::shuffle(entries, std::mt19937(1));
  if (entries.size() <= options.reads) fail("too few samples");
  const std::vector<cache::EntryId> wanted(entries.begin(), entries.begin() + options.reads);

  std::vector<double> seconds;
  std::uint64_t checksum = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ahead = 0;
  {
    const ReadsAhead reads_ahead(**store, {entries.begin() + options.reads, entries.end()}, options.ahead);
    if (options.ahead > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));  // so that they queue
    for (const cache::EntryId entry : wanted) {
      const auto begin = Clock::now();
      const auto view = (*store)->read(entry);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      if (!view) fail(view.error().message());
      checksum += XXH3_64bits(view->bytes().data(), view->bytes().size());
      bytes += view->bytes().size();
    }
    ahead = reads_ahead.ended();
  }
  std::ranges::sort(seconds);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  std::printf(
      "{\"samples\": 1, \"bytes\": %llu, \"seconds\": %.6f, \"median\": %.6f, \"ahead\": %llu, \"cpu_seconds\": %.3f, "
      "\"peak_bytes\": %llu, \"xxh3\": \"%016llx\"}\n",
      static_cast<unsigned long long>(bytes), seconds[seconds.size() * 99 / 100], seconds[seconds.size() / 2],
      static_cast<unsigned long long>(ahead), of(usage.ru_utime) + of(usage.ru_stime),
      static_cast<unsigned long long>(usage.ru_maxrss) * 1024, static_cast<unsigned long long>(checksum));
}
