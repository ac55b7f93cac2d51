// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/diagnosis.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <semaphore>
#include <utility>

#include <fmt/core.h>

#include "headrace/cache/reader.h"
#include "headrace/cache/simulator.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/show/figures.h"
#include "headrace/decode/pipeline.h"

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

io::Result<SampleRate> measure_decode(cache::Store& store, std::chrono::milliseconds time) {
  constexpr std::uint32_t kSamples = 64;  // about 7 MB of photographs: more than the processor's caches hold
  const std::uint32_t count = std::min<std::uint32_t>(kSamples, store.catalog().sample_count());
  std::vector<cache::View> views;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t spread = std::uint64_t{i} * store.catalog().sample_count() / count;
    const cache::EntryId entry = store.catalog().sample_entry(static_cast<cache::SampleIndex>(spread));
    if (io::Result<cache::View> view = store.read(entry)) views.push_back(std::move(*view));
  }
  if (views.empty()) return SampleRate{};
  const auto started = steady_clock::now();
  HEADRACE_TRY(pipeline,
               decode::Pipeline::start(std::make_unique<LoopingSource>(std::move(views), started + time), {}));
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  while (const decode::DecodedSample* sample = pipeline->next()) {
    if (!sample->status) continue;
    ++samples;
    bytes += sample->encoded_bytes;
  }
  return rate_since(started, samples, bytes);
}

namespace {

// Samples per second from storage with a cache of `capacity_bytes`; 0: the source is not read any more.
double storage_rate(const Measured& measured, const cache::Trace& trace, const cache::SampleSizes& sizes,
                    std::uint64_t capacity_bytes) {
  const auto unit = static_cast<double>(sizes.unit_bytes());  // in which the simulation counts
  const cache::Rate source{measured.source.bytes_per_second / unit, measured.source.samples_per_second};
  const cache::SimulationResult result = cache::simulate(
      trace, sizes.counts(), {.tiers = {{cache::PolicyKind::kNeverEvict, capacity_bytes / sizes.unit_bytes()}}});
  const cache::Rate tier{measured.tiers.bytes_per_second / unit, measured.tiers.samples_per_second};  // 0: fast enough
  const double seconds = cache::epoch_seconds(result, {&tier, 1}, source);
  const double samples =
      static_cast<double>(result.reads) / static_cast<double>(std::max<std::uint64_t>(result.epochs, 1));
  return seconds > 0 ? samples / seconds : 0;
}

void set_rate(Prospect& prospect, double storage, double decode) {
  const bool decode_bounds = decode > 0 && (storage == 0 || storage > decode);
  const char* storage_name = prospect.cached_fraction < 1 ? "source" : "disk tiers";
  prospect.samples_per_second = decode_bounds ? decode : storage;
  prospect.bound_by = decode_bounds ? "decoding" : storage > 0 ? storage_name : "nothing measured here";
}

}  // namespace

std::vector<Prospect> predict(const Measured& measured, const cache::SampleSizes& sizes, const cache::Order& order) {
  std::vector<Prospect> prospects;
  const io::Result<cache::Trace> trace = cache::trace_of(order, {.epochs = 2});
  if (!trace) return prospects;
  const std::uint64_t data_bytes = sizes.total();
  double storage = 0;
  for (const double fraction : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    Prospect prospect{.cached_fraction = fraction};
    prospect.cached_bytes = static_cast<std::uint64_t>(fraction * static_cast<double>(data_bytes));
    storage = storage_rate(measured, *trace, sizes, prospect.cached_bytes);
    set_rate(prospect, storage, measured.decode.samples_per_second);
    prospects.push_back(prospect);
  }
  if (measured.decode.samples_per_second > 0) {
    Prospect prospect{.cached_fraction = 1, .cached_bytes = data_bytes, .cores_factor = 2};
    set_rate(prospect, storage, 2 * measured.decode.samples_per_second);
    prospects.push_back(prospect);
  }
  return prospects;
}

std::string verdict(const Measured& measured) {
  const double source = measured.source.samples_per_second;
  const double decode = measured.decode.samples_per_second;
  if (measured.has_loader) {
    const LoaderRate& loader = measured.loader;
    if (loader.samples_per_second == 0)
      return "The loader opened nothing meanwhile: it was not running, or it was waiting for the training.";
    if (loader.hit_ratio < 0.9) {
      return fmt::format(
          "The training waits for its data: only {:.0f}% of the samples lay in memory when the loader "
          "wanted them. The source gives {:.0f} samples/s; a larger cache or the right --order helps.",
          100 * loader.hit_ratio, source);
    }
    return fmt::format(
        "The training does not wait for storage: {:.0f}% of the samples lay in memory when the loader "
        "wanted them. It takes {:.0f} samples/s; its decoding, its workers or the GPU set that pace.",
        100 * loader.hit_ratio, loader.samples_per_second);
  }
  if (decode > 0 && decode < source) {
    return fmt::format(
        "Decoding is the limit here: the source gives {:.0f} samples/s, the processor decodes {:.0f}. "
        "More cores or loader workers help; a cache does not.",
        source, decode);
  }
  if (decode > 0) {
    return fmt::format(
        "The source is the limit: it gives {:.0f} samples/s in shuffled order, the processor could "
        "decode {:.0f}. A cache raises the rate as the table shows.",
        source, decode);
  }
  return fmt::format(
      "The source gives {:.0f} samples/s in shuffled order. A training that takes more than that "
      "waits for the source; a cache raises the rate as the table shows.",
      source);
}

}  // namespace headrace::cli
