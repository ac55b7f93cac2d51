// SPDX-License-Identifier: Apache-2.0
// headrace read: reads epochs through the C++ reader and prints how fast that was.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "headrace/cache/reader.h"
#include "headrace/cache/record_order.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/stats_json.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/cache_arguments.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/cpu_time.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/decode/pipeline.h"
#include "headrace/io/log.h"

namespace headrace::cli {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

struct ReadArguments {
  std::filesystem::path source;
  CacheArguments cache;
  std::string order = "sequential";
  std::string records;  // of packs; empty: the samples are files
  std::uint64_t epochs = 1;
  std::uint64_t first_epoch = 0;
  bool decode = false;
  bool profile = false;  // with decode: print which stage took the time
  bool checksum = false;
  bool json = false;
};

struct EpochFigures {
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failed = 0;
  std::uint64_t checksum = 0;  // sum of the samples' XXH3: it is the same in every order
  double seconds = 0;
  double cpu_seconds = 0;  // of this process
};

// One sample, read or decoded.
struct Taken {
  io::Status status;
  std::uint64_t bytes = 0;  // of the file
  std::uint64_t checksum = 0;
  cache::SampleIndex index = 0;
};
// Takes the next sample. nullopt: the last epoch has ended, or it was cancelled.
using Take = std::function<std::optional<Taken>()>;

std::uint64_t hash(bool wanted, const void* data, std::size_t bytes) {
  return wanted ? XXH3_64bits(data, bytes) : 0;
}

Take take_raw(cache::Reader& reader, bool checksum) {
  return [&reader, checksum]() -> std::optional<Taken> {
    const std::optional<cache::Sample> sample = reader.next();
    if (!sample) return std::nullopt;
    if (!sample->bytes) return Taken{.status = tl::unexpected(sample->bytes.error()), .index = sample->index};
    const std::span<const std::byte> bytes = sample->bytes->bytes();
    return Taken{.bytes = bytes.size(), .checksum = hash(checksum, bytes.data(), bytes.size()), .index = sample->index};
  };
}

// Here the checksum is of the pixels.
Take take_decoded(decode::Pipeline& pipeline, bool checksum) {
  return [&pipeline, checksum]() -> std::optional<Taken> {
    const decode::DecodedSample* sample = pipeline.next();
    if (sample == nullptr) return std::nullopt;
    Taken taken{.status = sample->status, .bytes = sample->encoded_bytes, .index = sample->index};
    if (sample->status) taken.checksum = hash(checksum, sample->image.bytes().data(), sample->image.bytes().size());
    return taken;
  };
}

// A store and what is read of it in which order.
struct Reading {
  std::unique_ptr<cache::Store> store;
  std::shared_ptr<const cache::RecordSet> records;  // null: the samples are files
  std::unique_ptr<cache::Order> order;

  [[nodiscard]] std::string name_of(cache::SampleIndex sample) const {
    const cache::Catalog& catalog = store->catalog();
    if (!records) return catalog.path(catalog.sample_entry(sample));
    return fmt::format("{}, record {}", catalog.path(records->entry(sample)), records->place(sample).record);
  }
};

io::Result<Reading> open_reading(const ReadArguments& arguments, const Source& source, StopSignal& stop) {
  CacheArguments cache = arguments.cache;
  if (!arguments.records.empty()) cache.listing = "sorted";  // an image beside the pack must not hide it
  HEADRACE_TRY(options, make_store_options(source, cache, "25%"));
  HEADRACE_TRY(store, open_store(options, stop));
  if (arguments.records.empty()) {
    HEADRACE_TRY(order, open_order(arguments.order, store->catalog()));
    return Reading{std::move(store), nullptr, std::move(order)};
  }
  HEADRACE_TRY(records, open_packs(source, store->catalog(), cache, arguments.records));
  HEADRACE_TRY(order, cache::make_record_order(arguments.order, records, false));
  return Reading{std::move(store), std::move(records), std::move(order)};
}

struct Start {
  steady_clock::time_point time = steady_clock::now();
  double cpu = cpu_seconds();
};

EpochFigures read_epoch(const Take& take, const Reading& reading, std::uint64_t epoch, const Start& start) {
  const std::uint64_t length = reading.order->length(epoch);
  EpochFigures figures{.epoch = epoch};
  for (std::uint64_t position = 0; position < length; ++position) {
    const std::optional<Taken> taken = take();
    if (!taken) break;
    if (!taken->status) {
      if (figures.failed++ == 0)
        io::log_error("{}: {}", reading.name_of(taken->index), taken->status.error().message());
      continue;
    }
    ++figures.samples;
    figures.bytes += taken->bytes;
    figures.checksum += taken->checksum;
  }
  figures.seconds = seconds_since(start.time);
  figures.cpu_seconds = cpu_seconds() - start.cpu;
  return figures;
}

void print_epoch(const EpochFigures& figures, bool checksum) {
  const double seconds = std::max(figures.seconds, 1e-6);
  fmt::print("epoch {}: {} samples, {} in {:.2f} s: {:.0f} samples/s, {}/s", figures.epoch, figures.samples,
             format_size(figures.bytes), figures.seconds, static_cast<double>(figures.samples) / seconds,
             format_size(static_cast<std::uint64_t>(static_cast<double>(figures.bytes) / seconds)));
  if (checksum) fmt::print(", xxh3 {:016x}", figures.checksum);
  if (figures.failed > 0) fmt::print(", {} failed", figures.failed);
  fmt::print("\n");
  std::fflush(stdout);
}

void print_tiers(const cache::StoreStats& stats) {
  for (const cache::TierStats& tier : stats.tiers) {
    fmt::print("{:<6} {:>8} hits, {:>9} read from here", name_of(tier.kind), format_count(tier.hits),
               format_size(tier.hit_bytes));
    if (tier.budget_bytes > 0)
      fmt::print(", {} of {} used", format_size(tier.used_bytes), format_size(tier.budget_bytes));
    fmt::print("\n");
  }
}

json epochs_json(const std::vector<EpochFigures>& epochs, bool checksum) {
  json list = json::array();
  for (const EpochFigures& figures : epochs) {
    list.push_back({{"epoch", figures.epoch},
                    {"samples", figures.samples},
                    {"bytes", figures.bytes},
                    {"failed", figures.failed},
                    {"seconds", figures.seconds},
                    {"cpu_seconds", figures.cpu_seconds}});
    if (checksum) list.back()["xxh3"] = fmt::format("{:016x}", figures.checksum);
  }
  return list;
}

std::uint64_t print(const ReadArguments& arguments, const std::vector<EpochFigures>& epochs,
                    const cache::StoreStats& stats) {
  if (arguments.json) {
    print_json({{"epochs", epochs_json(epochs, arguments.checksum)}, {"store", to_json(stats)}});
  } else {
    print_tiers(stats);
  }
  return std::accumulate(epochs.begin(), epochs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const EpochFigures& figures) { return sum + figures.failed; });
}

io::Status read_epochs(const ReadArguments& arguments, const Take& take, const Reading& reading, const OnStop& on_stop,
                       Start start) {
  std::vector<EpochFigures> epochs;
  for (std::uint64_t i = 0; i < arguments.epochs && !on_stop.stopped(); ++i) {
    const std::uint64_t epoch = arguments.first_epoch + i;
    epochs.push_back(read_epoch(take, reading, epoch, start));
    start = {};
    if (!arguments.json) print_epoch(epochs.back(), arguments.checksum);
  }
  const std::uint64_t failed = print(arguments, epochs, reading.store->stats());
  if (on_stop.stopped()) return io::make_error(io::ErrorCode::kCancelled, "stopped by a signal");
  if (failed > 0) {
    return io::make_error(io::ErrorCode::kSystem, fmt::format("{} samples could not be read", failed));
  }
  return {};
}

io::Status run_read(const ReadArguments& arguments) {
  HEADRACE_TRY(source, open_source(arguments.source));
  StopSignal stop;  // before the store, whose threads inherit the blocked signals
  HEADRACE_TRY(reading, open_reading(arguments, source, stop));
  const Start start;  // the reader fetches from here on
  HEADRACE_TRY(reader,
               cache::Reader::open(
                   *reading.store, *reading.order,
                   {.first_epoch = arguments.first_epoch, .epochs = arguments.epochs, .records = reading.records}));

  const OnStop on_stop(stop, [&] { reader->cancel(); });
  if (!arguments.decode) {
    return read_epochs(arguments, take_raw(*reader, arguments.checksum), reading, on_stop, start);
  }
  HEADRACE_TRY(pipeline, decode::Pipeline::start(decode::read_from(*reader, reading.store->catalog()), {}));
  io::Status status = read_epochs(arguments, take_decoded(*pipeline, arguments.checksum), reading, on_stop, start);
  // On stderr, so that --json prints one object.
  if (arguments.profile) fmt::print(stderr, "{}", decode::format(pipeline->report()));
  return status;
}

}  // namespace

void add_read_command(Command& program) {
  std::shared_ptr<ReadArguments> arguments;
  Command& command = add_command(
      program, {kDataCommands, "read", "Read epochs through the C++ reader and print the rates"}, run_read, arguments);
  command.add({.name = "SOURCE",
               .target = &arguments->source,
               .help = "The folder or bucket that holds the data set",
               .required = true});
  add_ram_size(command, arguments->cache);
  add_tier_options(command, arguments->cache);
  command.add({.name = "--order",
               .target = &arguments->order,
               .value = "SPEC",
               .group = kOrderGroup,
               .help = "The order to read in; see headrace order --help",
               .shows_default = true});
  add_records_option(command, arguments->records);
  command.add({.name = "--epochs",
               .target = &arguments->epochs,
               .value = "N",
               .group = kOrderGroup,
               .help = "How many epochs",
               .shows_default = true});
  command.add({.name = "--epoch",
               .target = &arguments->first_epoch,
               .value = "E",
               .group = kOrderGroup,
               .help = "The first one"});
  command.add({.name = "--decode", .target = &arguments->decode, .group = "Work", .help = "Decode the images too"});
  command.add({.name = "--profile",
               .target = &arguments->profile,
               .group = "Work",
               .help = "Print which stage holds the others up",
               .needs = {"--decode"}});
  command.add({.name = "--checksum",
               .target = &arguments->checksum,
               .group = "Work",
               .help = "Print the sum of the samples' XXH3 (equal in every order)"});
  command.add({.name = "--json", .target = &arguments->json, .group = "Work", .help = "Print one JSON object"});
  add_listing_options(command, arguments->cache);
  add_bucket_options(command, arguments->cache);
  add_engine_option(command, arguments->cache);
  command.footer = "Example:\n  headrace read /data/train --order torch-distributed:seed=0 --epochs 2 --ram 8G";
}

}  // namespace headrace::cli
