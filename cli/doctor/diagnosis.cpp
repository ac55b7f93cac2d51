// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/diagnosis.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "headrace/cache/simulator.h"

namespace headrace::cli {
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
  const auto add = [&](Prospect prospect, double decode) {
    set_rate(prospect, storage, decode);
    // A row that says what the one before says would be in the way.
    const bool is_new = prospects.empty() || prospects.back().bound_by != prospect.bound_by ||
                        prospects.back().samples_per_second != prospect.samples_per_second;
    if (is_new) prospects.push_back(std::move(prospect));
  };
  const double decode = measured.decode.samples_per_second;
  for (const double fraction : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const auto bytes = static_cast<std::uint64_t>(fraction * static_cast<double>(data_bytes));
    storage = storage_rate(measured, *trace, sizes, bytes);
    add({.cached_fraction = fraction, .cached_bytes = bytes}, decode);
  }
  if (decode > 0) add({.cached_fraction = 1, .cached_bytes = data_bytes, .cores_factor = 2}, 2 * decode);
  return prospects;
}

namespace {

constexpr double kLoaderShare = 4;    // a loader whose own code takes more CPU than this many decodings is bound by it
constexpr double kFasterAhead = 1.5;  // the source could give so much more: it is not what holds the reader up
constexpr double kLostShare = 0.1;    // of what was opened: more than that is no accident
constexpr double kStrayShare = 0.25;  // of what was opened: more are not somebody who looks at the folder
constexpr double kPeersShare = 0.5;   // of what was fetched: the source would have to be twice as fast to hold it up
constexpr double kHitsEnough = 0.9;   // where the readers cannot be seen
constexpr double kMilli = 1000;

// What a loader with `workers` processes, which each read a file and then decode it, would get.
struct Workers {
  double direct = 0;  // from the source, one file after the other
  double ahead = 0;   // from memory, with the source read ahead
  bool reads_longest = false;
};

Workers predict_workers(const Measured& measured) {
  const double count = measured.workers;
  const double read = measured.direct.samples_per_second > 0 ? count / measured.direct.samples_per_second : 0;
  const double decode = measured.decode.cpu_seconds;
  // 0: not known, no limit
  const auto at_most = [](double rate, double limit) { return limit > 0 ? std::min(rate, limit) : rate; };
  const double source = measured.source.samples_per_second;
  Workers workers;
  workers.direct = read + decode > 0 ? count / (read + decode) : 0;
  workers.reads_longest =
      read > decode && (measured.decode.samples_per_second == 0 || workers.direct < measured.decode.samples_per_second);
  workers.direct = at_most(workers.direct, measured.decode.samples_per_second);
  workers.ahead = at_most(decode > 0 ? std::min(source, count / decode) : source, measured.decode.samples_per_second);
  return workers;
}

Diagnosis diagnose_source(const Measured& measured) {
  const Workers workers = predict_workers(measured);
  const double read_ms = kMilli * measured.workers / std::max(measured.direct.samples_per_second, 1 / kMilli);
  if (!workers.reads_longest && measured.decode.samples_per_second > 0) {
    return {Bound::kDecoding,
            fmt::format("Decoding is the bound: a sample takes {:.1f} ms of a core to decode and {:.1f} ms to read, so "
                        "{} loader workers get {:.0f} samples/s here. More cores help; a cache does not.",
                        kMilli * measured.decode.cpu_seconds, read_ms, measured.workers, workers.direct)};
  }
  std::string text = fmt::format(
      "The source is the bound: a file takes {:.1f} ms to read, so {} loader workers get {:.0f} samples/s from it.",
      read_ms, measured.workers, workers.direct);
  if (workers.ahead > kFasterAhead * workers.direct) {
    text += fmt::format(" Behind headrace mount, which reads ahead, they get {:.0f}.", workers.ahead);
  } else {
    text += " Reading ahead brings little here; what is cached is gained, as the table shows.";
  }
  return {Bound::kSource, text};
}

// The order that is followed is not what is read, or none is known.
std::string describe_order(const LoaderSeen& loader) {
  if (loader.order_known) {
    return fmt::format("{:.0f}% of the opens were not what {} says, which {}. headrace order set tells another.",
                       100 * loader.stray_ratio, loader.order, loader.learned ? "was learned" : "was given");
  }
  std::string text = "nobody knows yet what is read next.";
  if (!loader.given_up.empty()) {
    text +=
        fmt::format(" The order that was given, {}, was given up, since the loader read otherwise.", loader.given_up);
  }
  if (!loader.search.empty()) text += fmt::format(" headrace is {}.", loader.search);
  return text + " headrace order set tells it.";
}

// Why the mount did not have in memory what the readers wanted.
Diagnosis diagnose_waiting(const Measured& measured) {
  const LoaderSeen& loader = measured.loader;
  const double source = measured.source.samples_per_second;
  const std::string waits =
      loader.readers > 0
          ? fmt::format("Its readers wait for data {:.0f}% of the time", 100 * loader.waiting)
          : fmt::format("Only {:.0f}% of the samples lay in memory when they were opened", 100 * loader.hit_ratio);
  if (!loader.shortage.empty() || loader.lost_ratio > kLostShare) {
    return {Bound::kMemory,
            fmt::format("Memory is the bound. {}, since what was read ahead had to go: {}. A higher limit helps, or "
                        "less beside it.",
                        waits, !loader.shortage.empty() ? loader.shortage : "the kernel took back what was pushed")};
  }
  if (!loader.pause.empty()) {
    return {Bound::kOrder, fmt::format("Reading ahead was of no use. {}, and {}.", waits, loader.pause)};
  }
  if (loader.order_known && loader.stray_ratio > kStrayShare) {
    return {Bound::kOrder, fmt::format("The order is wrong. {}: {}", waits, describe_order(loader))};
  }
  if (loader.order_known && loader.peer_ratio > kPeersShare) {
    return {Bound::kPeers,
            fmt::format("The peers are the bound. {}, and {:.0f}% of what came meanwhile came from peers; the "
                        "slowest of them: {}. A faster network between the nodes helps, or more --ram and --ssd here.",
                        waits, 100 * loader.peer_ratio, loader.slowest_peer)};
  }
  if (source < kFasterAhead * loader.samples_per_second) {
    return {Bound::kSource,
            fmt::format("The source is the bound. {}, and the source gives {:.0f} samples/s at most, of which the "
                        "training takes {:.0f}. A larger cache helps: --ram, --ssd.",
                        waits, source, loader.samples_per_second)};
  }
  if (!loader.order_known) {
    return {Bound::kOrder,
            fmt::format("The order is what is missing. {}: the source could give {:.0f} samples/s, but {}", waits,
                        source, describe_order(loader))};
  }
  return {Bound::kMemory,
          fmt::format("Memory is the bound. {}: the source could give {:.0f} samples/s, the training gets {:.0f}, and "
                      "the budget of {} is too small to read further ahead. More --ram helps.",
                      waits, source, loader.samples_per_second, loader.budget)};
}

Diagnosis diagnose_computing(const Measured& measured) {
  const LoaderSeen& loader = measured.loader;
  const double decode = measured.decode.cpu_seconds;
  const std::string busy = fmt::format("Its readers compute {:.0f}% of the time: a sample takes {:.1f} ms of CPU",
                                       100 * loader.busy, kMilli * loader.cpu_seconds_per_sample);
  if (decode > 0 && loader.cpu_seconds_per_sample < kLoaderShare * decode) {
    return {Bound::kDecoding, fmt::format("Decoding is the bound. {}, decoding alone {:.1f} ms. More workers help as "
                                          "long as there are cores for them; a cache does not.",
                                          busy, kMilli * decode)};
  }
  return {Bound::kLoader, fmt::format("The loader's own code is the bound. {}, and decoding is {} of that. Look at its "
                                      "transforms, or give it more workers; a cache does not help.",
                                      busy, decode > 0 ? fmt::format("{:.1f} ms", kMilli * decode) : "no part")};
}

Diagnosis diagnose_loader(const Measured& measured) {
  const LoaderSeen& loader = measured.loader;
  if (loader.samples_per_second == 0) {
    return {Bound::kNothingRead,
            "The loader opened nothing meanwhile: it was not running, or it was waiting for the training."};
  }
  if (loader.readers == 0) {
    if (loader.hit_ratio < kHitsEnough) return diagnose_waiting(measured);
    return {Bound::kNotStorage,
            fmt::format("The training does not wait for storage: {:.0f}% of the samples lay in memory when they were "
                        "opened. It takes {:.0f} samples/s; its decoding, its own code or the GPU set that pace.",
                        100 * loader.hit_ratio, loader.samples_per_second)};
  }
  const double idle = 1 - loader.busy - loader.waiting;
  if (loader.waiting >= std::max(loader.busy, idle)) return diagnose_waiting(measured);
  if (loader.busy >= idle) return diagnose_computing(measured);
  return {
      Bound::kConsumer,
      fmt::format("The consumer is the bound, such as a GPU: the readers have nothing to do {:.0f}% of the time. The "
                  "training takes {:.0f} samples/s; neither a cache nor more workers help.",
                  100 * idle, loader.samples_per_second)};
}

}  // namespace

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::kNothingRead:
      return "nothing read";
    case Bound::kSource:
      return "source";
    case Bound::kPeers:
      return "peers";
    case Bound::kOrder:
      return "order";
    case Bound::kMemory:
      return "memory";
    case Bound::kDecoding:
      return "decoding";
    case Bound::kLoader:
      return "loader";
    case Bound::kConsumer:
      return "consumer";
    case Bound::kNotStorage:
      return "not storage";
  }
  return "";
}

Diagnosis diagnose(const Measured& measured) {
  return measured.has_loader ? diagnose_loader(measured) : diagnose_source(measured);
}

}  // namespace headrace::cli
