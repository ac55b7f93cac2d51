// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/measure.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include "headrace/cache/reader.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/show/cpu_time.h"
#include "headrace/cli/show/figures.h"
#include "headrace/decode/pipeline.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

using std::chrono::steady_clock;

SampleRate rate_since(steady_clock::time_point start, std::uint64_t samples, std::uint64_t bytes) {
  const double seconds = std::max(seconds_since(start), 1e-6);
  return {static_cast<double>(samples) / seconds, static_cast<double>(bytes) / seconds};
}

// No training uses this seed, so the samples read here are not those that were just pushed into a page cache.
constexpr const char* kProbeOrder = "torch-distributed:seed=987654321";

// Returns the same samples again and again until the time is over.
class LoopingSource : public decode::SampleSource {
 public:
  LoopingSource(std::vector<cache::View> samples, steady_clock::time_point end)
      : samples_(std::move(samples)), end_(end) {}

  std::optional<decode::RawSample> next() override {
    if (cancelled_ || steady_clock::now() >= end_) return std::nullopt;
    const cache::View& view = samples_[position_ % samples_.size()];
    return decode::RawSample{.position = position_++, .bytes = view.bytes()};
  }
  void cancel() override { cancelled_ = true; }
  std::string path(cache::SampleIndex) const override { return "sample"; }

 private:
  const std::vector<cache::View> samples_;
  const steady_clock::time_point end_;
  std::atomic<bool> cancelled_{false};
  std::uint64_t position_ = 0;
};

}  // namespace

io::Result<SampleRate> measure_source(cache::Store& store, std::chrono::milliseconds time) {
  HEADRACE_TRY(order, open_order(kProbeOrder, store.catalog()));
  const auto started = steady_clock::now();  // before the reader starts to read ahead
  HEADRACE_TRY(reader, cache::Reader::open(store, *order, {.epochs = 1}));
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  while (steady_clock::now() - started < time) {
    const std::optional<cache::Sample> sample = reader->next();
    if (!sample) break;
    if (!sample->bytes) continue;
    ++samples;
    bytes += sample->bytes->bytes().size();
  }
  const SampleRate rate = rate_since(started, samples, bytes);
  reader->cancel();
  return rate;
}

namespace {

// The reads that are in flight. Their callbacks share it with the function that waits for them.
class ReadsInFlight {
 public:
  void begin() { free_.acquire(); }
  void end(const io::Result<cache::View>& view) {
    if (view) samples_.fetch_add(1), bytes_.fetch_add(view->bytes().size());
    free_.release();
  }
  SampleRate wait_for_all(steady_clock::time_point started) {
    for (int i = 0; i < kAtOnce; ++i) free_.acquire();
    return rate_since(started, samples_, bytes_);
  }

 private:
  static constexpr int kAtOnce = 32;  // enough to keep an SSD busy; they hold 3.5 MB of photographs

  std::counting_semaphore<kAtOnce> free_{kAtOnce};
  std::atomic<std::uint64_t> samples_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace

io::Result<SampleRate> measure_tiers(cache::Store& store, std::chrono::milliseconds time) {
  HEADRACE_TRY(order, open_order(kProbeOrder, store.catalog()));
  HEADRACE_TRY(samples, order->epoch(1));
  HEADRACE_TRY_DO(store.flush());
  const auto reads = std::make_shared<ReadsInFlight>();
  const auto started = steady_clock::now();
  for (const cache::SampleIndex sample : samples) {
    if (steady_clock::now() - started >= time) break;
    const cache::EntryId entry = store.catalog().sample_entry(sample);
    if (!store.is_on_disk(entry)) continue;
    store.drop(entry);  // or memory would answer instead of the tier
    reads->begin();
    store.read_async(entry, [reads](const io::Result<cache::View>& view) { reads->end(view); });
  }
  return reads->wait_for_all(started);
}

namespace {

// More loader workers than this would measure this machine's scheduler.
constexpr std::uint32_t kWorkersMax = 256;
// Those of the direct reads are drawn apart, so that the page cache does not answer what is read ahead afterwards.
constexpr const char* kDirectOrder = "torch-distributed:seed=123456789";

// What all threads of measure_direct() share.
struct DirectReads {
  cache::Store& store;
  const Source& source;
  const std::vector<cache::SampleIndex> order;
  const steady_clock::time_point end;
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> samples{0};
  std::atomic<std::uint64_t> bytes{0};
};

// Opens and reads one file to its end; nullopt: it cannot be read.
std::optional<std::uint64_t> read_whole(int directory, const std::string& path, std::vector<char>& room) {
  const io::UniqueFd file(::openat(directory, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) return std::nullopt;
  std::uint64_t bytes = 0;
  while (true) {
    const ssize_t count = ::read(file.get(), room.data(), room.size());
    if (count < 0) return std::nullopt;
    bytes += static_cast<std::uint64_t>(count);
    if (static_cast<std::size_t>(count) < room.size()) return bytes;  // the end of a file, as a loader sees it
  }
}

std::optional<std::uint64_t> read_object(cache::Store& store, cache::EntryId entry) {
  const io::Result<cache::View> view = store.read(entry);
  store.drop(entry);  // or memory would answer later instead of the bucket
  return view ? std::optional<std::uint64_t>(view->bytes().size()) : std::nullopt;
}

void read_one_after_another(DirectReads& reads) {
  constexpr std::size_t kRoomBytes = std::size_t{1} << 20;  // most samples are smaller: one read each
  std::vector<char> room(kRoomBytes);
  while (steady_clock::now() < reads.end) {
    const std::size_t position = reads.next.fetch_add(1);
    if (position >= reads.order.size()) return;
    const cache::Catalog& catalog = reads.store.catalog();
    const cache::EntryId entry = catalog.sample_entry(reads.order[position]);
    const std::optional<std::uint64_t> bytes =
        reads.source.is_bucket() ? read_object(reads.store, entry)
                                 : read_whole(reads.source.directory.get(), catalog.path(entry), room);
    if (!bytes) continue;
    reads.samples.fetch_add(1);
    reads.bytes.fetch_add(*bytes);
  }
}

}  // namespace

io::Result<SampleRate> measure_direct(cache::Store& store, const Source& source, std::uint32_t workers,
                                      std::chrono::milliseconds time) {
  HEADRACE_TRY(order, open_order(kDirectOrder, store.catalog()));
  HEADRACE_TRY(samples, order->epoch(0));
  const auto started = steady_clock::now();
  DirectReads reads{.store = store, .source = source, .order = std::move(samples), .end = started + time};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < std::min(workers, kWorkersMax); ++i) {
    threads.emplace_back([&reads, i] {
      ::pthread_setname_np(::pthread_self(), fmt::format("hr-probe-{}", i).c_str());
      read_one_after_another(reads);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return rate_since(started, reads.samples, reads.bytes);
}

io::Result<DecodeRate> measure_decode(cache::Store& store, std::chrono::milliseconds time) {
  constexpr std::uint32_t kSamples = 64;  // about 7 MB of photographs: more than the processor's caches hold
  const std::uint32_t count = std::min<std::uint32_t>(kSamples, store.catalog().sample_count());
  std::vector<cache::View> views;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t spread = std::uint64_t{i} * store.catalog().sample_count() / count;
    const cache::EntryId entry = store.catalog().sample_entry(static_cast<cache::SampleIndex>(spread));
    if (io::Result<cache::View> view = store.read(entry)) views.push_back(std::move(*view));
  }
  if (views.empty()) return DecodeRate{};
  const auto started = steady_clock::now();
  const double cpu_before = cpu_seconds();
  HEADRACE_TRY(pipeline,
               decode::Pipeline::start(std::make_unique<LoopingSource>(std::move(views), started + time), {}));
  std::uint64_t samples = 0;
  while (const decode::DecodedSample* sample = pipeline->next()) samples += sample->status ? 1 : 0;
  if (samples == 0) return DecodeRate{};
  return DecodeRate{.samples_per_second = rate_since(started, samples, 0).samples_per_second,
                    .cpu_seconds = (cpu_seconds() - cpu_before) / static_cast<double>(samples)};
}

}  // namespace headrace::cli
