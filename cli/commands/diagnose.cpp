// SPDX-License-Identifier: Apache-2.0
// headrace diagnose: what a training is bound by. The loader of a mount is watched first: measuring would disturb it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/sample_sizes.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/processes.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/doctor/diagnosis.h"
#include "headrace/cli/doctor/readers.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/cache_arguments.h"
#include "headrace/cli/setup/child_command.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/order_words.h"
#include "headrace/cli/show/watch.h"
#include "headrace/cli/show/wrap.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;
using std::chrono::milliseconds;

struct DiagnoseArguments {
  std::filesystem::path target;  // source folder or mount point
  CacheArguments cache;
  std::uint32_t workers = 4;         // of the loader
  std::uint32_t seconds = 10;        // how long the loader is watched, and how long storage and decoding are measured
  std::vector<std::string> command;  // starts the training that is watched; empty: it runs already
  bool json = false;
};

// While it lives, a look at the mount and at its readers from time to time.
constexpr milliseconds kLookInterval{200};
constexpr int kLookShare = 10;  // looks take a tenth of the time at most: on a full machine /proc is long

// The processes that read the mount now; where none is caught at it, the workers of the command.
std::vector<pid_t> find_readers(const std::filesystem::path& mount_point, const json& stat,
                                const std::optional<ChildCommand>& command) {
  std::vector<pid_t> pids;
  for (const Holder& holder : users_of(canonical_path(mount_point))) {
    const auto pid = static_cast<std::uint64_t>(holder.pid);
    if (pid != number_of(stat, "pid") && pid != number_of(stat, "supervisor_pid")) pids.push_back(holder.pid);
  }
  if (pids.empty() && command) return workers_of_group(command->group());
  return pids;
}

// Looks at the readers until the time is over, the command ends or a signal comes. False: a signal came.
bool watch_readers(const DiagnoseArguments& arguments, const json& stat, const std::optional<ChildCommand>& command,
                   StopSignal& stop, ReaderWatch& readers) {
  using std::chrono::duration_cast;
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::seconds(arguments.seconds);
  while (true) {
    const auto began = steady_clock::now();
    readers.note(find_readers(arguments.target, stat, command));
    const auto now = steady_clock::now();
    if (now >= end || (command && command->ended())) return true;
    const milliseconds pause = std::max(kLookInterval, duration_cast<milliseconds>(kLookShare * (now - began)));
    if (stop.wait_for(std::min(pause, duration_cast<milliseconds>(end - now) + milliseconds(1)))) return false;
  }
}

// What came from the peers between two looks, and which of them answers latest.
void add_peers(const json& before, const json& after, LoaderSeen& seen) {
  const auto bytes_from = [](const json& stat, const char* kind) {
    for (const json& tier : member_of(member_of(stat, "store"), "tiers")) {
      if (text_of(tier, "kind") == kind) return static_cast<double>(number_of(tier, "hit_bytes"));
    }
    return 0.0;
  };
  const auto growth = [&](const char* kind) {
    return std::max(0.0, bytes_from(after, kind) - bytes_from(before, kind));
  };
  const double peers = growth("shared");
  if (peers <= 0) return;
  seen.peer_ratio = peers / (peers + growth("source") + growth("ssd") + growth("hdd"));
  double slowest = -1;
  for (const json& peer : member_of(member_of(after, "store"), "peers")) {
    if (real_of(peer, "seconds_p99") <= slowest) continue;
    slowest = real_of(peer, "seconds_p99");
    seen.slowest_peer =
        fmt::format("{}, {}, 99% of its answers within {:.1f} ms, {}/s", text_of(peer, "name"), text_of(peer, "state"),
                    1e3 * slowest, format_size(static_cast<std::uint64_t>(real_of(peer, "bytes_per_second"))));
  }
}

LoaderSeen seen_between(const json& before, const json& after, const ReaderTimes& times) {
  WatchHistory history;
  history.add(sample_from(before));
  history.add(sample_from(after));
  const json& then = member_of(before, "mount");
  const json& now = member_of(after, "mount");
  const auto growth = [&](const char* name) {
    return static_cast<double>(number_of(now, name)) - static_cast<double>(number_of(then, name));
  };
  const double opens = std::max(growth("opens"), 1.0);
  LoaderSeen seen{.samples_per_second = history.rates(&WatchSample::opens).front(),
                  .hit_ratio = history.hit_ratios().front(),
                  .lost_ratio = std::max(growth("lost_samples"), 0.0) / opens,
                  .order_known = !text_of(now, "order").empty(),
                  .order = text_of(now, "order"),
                  .learned = !text_of(now, "order_found_by").empty(),
                  .stray_ratio = std::clamp(growth("strays") / opens, 0.0, 1.0),
                  .given_up = text_of(now, "order_given_up"),
                  .pause = describe_pause(now),
                  .search = describe_search(now),
                  .shortage = text_of(now, "shortage"),
                  .budget = format_size(number_of(now, "page_cache_budget_bytes")),
                  .readers = times.readers};
  add_peers(before, after, seen);
  if (times.seconds <= 0) return seen;
  seen.busy = std::min(1.0, (times.cpu_seconds + times.core_seconds) / times.seconds);
  const double seconds = real_of(after, "uptime_seconds") - real_of(before, "uptime_seconds");
  const double waited = real_of(now, "read_wait_seconds") - real_of(then, "read_wait_seconds");
  seen.waiting = std::clamp(waited / std::max(seconds * times.readers, 1e-3), 0.0, 1 - seen.busy);
  seen.cpu_seconds_per_sample = times.cpu_seconds / opens;
  return seen;
}

// What the readers of a mount did, and how much of what they read lay in memory.
io::Result<LoaderSeen> watch_loader(const DiagnoseArguments& arguments) {
  StopSignal stop;  // a signal ends the command too
  std::optional<ChildCommand> command;
  if (!arguments.command.empty()) {
    HEADRACE_TRY(started, ChildCommand::start(arguments.command));
    command.emplace(std::move(started));
  }
  HEADRACE_TRY(before, query_daemon(arguments.target, "stat"));
  ReaderWatch readers;
  if (!watch_readers(arguments, before, command, stop, readers)) {
    return make_error(ErrorCode::kCancelled, "stopped by a signal");
  }
  HEADRACE_TRY(after, query_daemon(arguments.target, "stat"));
  const int status = command ? command->ended().value_or(0) : 0;
  if (status != 0) {
    note_failed_child(status);
    return make_error(ErrorCode::kSystem,
                      fmt::format("{} ended with status {} while it was watched", arguments.command.front(), status));
  }
  return seen_between(before, after, readers.times());
}

void print_loader(const LoaderSeen& loader) {
  fmt::print("loader    {:>8.0f} samples/s, {:.1f}% found in memory\n", loader.samples_per_second,
             100 * loader.hit_ratio);
  if (loader.readers == 0) {
    return fmt::print("readers   none was seen: other users' processes, or they open files for too short a time\n");
  }
  fmt::print("readers   {:>8} compute {:.0f}% of the time, wait for data {:.0f}%, for work {:.0f}%\n", loader.readers,
             100 * loader.busy, 100 * loader.waiting, 100 * (1 - loader.busy - loader.waiting));
}

void print(const Measured& measured, const std::vector<Prospect>& prospects) {
  fmt::print("direct    {:>8.0f} samples/s, {} workers that read one file after the other\n",
             measured.direct.samples_per_second, measured.workers);
  fmt::print("source    {:>8.0f} samples/s, {}/s, many files at once, in shuffled order\n",
             measured.source.samples_per_second,
             format_size(static_cast<std::uint64_t>(measured.source.bytes_per_second)));
  if (measured.tiers.samples_per_second > 0) {
    fmt::print("tiers     {:>8.0f} samples/s, {}/s, held by the disk tiers, in shuffled order\n",
               measured.tiers.samples_per_second,
               format_size(static_cast<std::uint64_t>(measured.tiers.bytes_per_second)));
  }
  if (measured.decode.samples_per_second > 0) {
    fmt::print("decoding  {:>8.0f} samples/s on the cores that may be used\n", measured.decode.samples_per_second);
  }
  if (measured.has_loader) {
    print_loader(measured.loader);
  }
  fmt::print("\n{}\n\n{:<36}{:>12}   {}\n", wrap(diagnose(measured).text, {.columns = 78}),
             measured.tiers.samples_per_second > 0 ? "held on these tiers" : "held in RAM or on an SSD", "samples/s",
             "bound by");
  for (const Prospect& prospect : prospects) {
    std::string change = fmt::format("{:.0f}%, {}", 100 * prospect.cached_fraction, format_size(prospect.cached_bytes));
    if (prospect.cores_factor > 1) change += fmt::format(", {} times the cores", prospect.cores_factor);
    fmt::print("{:<36}{:>12.0f}   {}\n", change, prospect.samples_per_second, prospect.bound_by);
  }
  if (measured.requests_per_epoch > 0) {
    fmt::print("\n{}\n", wrap(describe_epoch_price(measured.requests_per_epoch), {.columns = 78}));
  }
}

json to_json(const Measured& measured, const std::vector<Prospect>& prospects) {
  json table = json::array();
  for (const Prospect& prospect : prospects) {
    table.push_back({{"cached_fraction", prospect.cached_fraction},
                     {"cached_bytes", prospect.cached_bytes},
                     {"cores_factor", prospect.cores_factor},
                     {"samples_per_second", prospect.samples_per_second},
                     {"bound_by", prospect.bound_by}});
  }
  const Diagnosis found = diagnose(measured);
  json result = {{"source_samples_per_second", measured.source.samples_per_second},
                 {"source_bytes_per_second", measured.source.bytes_per_second},
                 {"tier_samples_per_second", measured.tiers.samples_per_second},
                 {"tier_bytes_per_second", measured.tiers.bytes_per_second},
                 {"direct_samples_per_second", measured.direct.samples_per_second},
                 {"workers", measured.workers},
                 {"decode_samples_per_second", measured.decode.samples_per_second},
                 {"decode_cpu_seconds", measured.decode.cpu_seconds},
                 {"bound", name_of(found.bound)},
                 {"verdict", found.text},
                 {"prospects", std::move(table)}};
  if (measured.requests_per_epoch > 0) {
    result["requests_per_epoch"] = measured.requests_per_epoch;
    result["dollars_per_epoch"] = request_dollars(measured.requests_per_epoch, 0);
  }
  if (measured.has_loader) {
    result["loader_samples_per_second"] = measured.loader.samples_per_second;
    result["loader_hit_ratio"] = measured.loader.hit_ratio;
    result["loader_readers"] = measured.loader.readers;
  }
  if (measured.loader.readers > 0) {
    result["loader_busy"] = measured.loader.busy;
    result["loader_waiting"] = measured.loader.waiting;
    result["loader_cpu_seconds"] = measured.loader.cpu_seconds_per_sample;
  }
  return result;
}

// The source of a mount, which knows how its bucket is reached. A mount that covers its source is measured through.
std::filesystem::path source_of(const json& stat, CacheArguments& cache) {
  const json& bucket = member_of(member_of(stat, "store"), "bucket");
  if (!bucket.empty()) {
    if (cache.endpoint.empty()) cache.endpoint = text_of(bucket, "endpoint");
    if (cache.region.empty()) cache.region = text_of(bucket, "region");
    if (cache.profile.empty()) cache.profile = text_of(bucket, "profile");
    cache.no_sign_request = cache.no_sign_request || flag_of(bucket, "no_sign_request");
    cache.requester_pays = cache.requester_pays || flag_of(bucket, "requester_pays");
  }
  return text_of(stat, "source");
}

// Gives each measurement the same part of `time`.
io::Status measure_storage(cache::Store& store, const Source& source, milliseconds time, Measured& measured) {
  const bool has_tiers = store.stats().tiers.size() > 2;  // more than RAM and the source
  const milliseconds share = time / (has_tiers ? 4 : 3);
  HEADRACE_TRY(direct, measure_direct(store, source, measured.workers, share));
  HEADRACE_TRY(read_ahead, measure_source(store, share));
  measured.direct = direct;
  measured.source = read_ahead;
  if (has_tiers) {  // after the source: its reads have filled the tiers as far as there was room
    HEADRACE_TRY(tiers, measure_tiers(store, share));
    measured.tiers = tiers;
  }
  HEADRACE_TRY(decode, measure_decode(store, share));
  measured.decode = decode;
  return {};
}

io::Status run_diagnose(const DiagnoseArguments& arguments) {
  HEADRACE_TRY(stat, call_daemon_if_mounted(arguments.target, "stat"));
  const bool is_mount = stat.has_value();
  CacheArguments reached = arguments.cache;
  const std::filesystem::path source_path = is_mount ? source_of(*stat, reached) : arguments.target;
  if (!arguments.command.empty() && !is_mount) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a command can be watched only through a mount: headrace mount {0} MOUNTPOINT, then "
                                  "headrace diagnose MOUNTPOINT -- COMMAND",
                                  arguments.target.string()));
  }
  if (arguments.workers == 0) {
    return make_error(ErrorCode::kInvalidArgument, "--workers 0: a loader that loads by itself is 1 worker");
  }
  Measured measured{.workers = arguments.workers};
  measured.has_loader = is_mount;
  if (is_mount) {  // first, because the measurements below would disturb the loader
    HEADRACE_TRY(loader, watch_loader(arguments));
    measured.loader = loader;
  }
  HEADRACE_TRY(source, open_source(source_path));
  HEADRACE_TRY(options, make_store_options(source, reached, "256M"));
  HEADRACE_TRY(store, cache::Store::open(options));
  HEADRACE_TRY_DO(check_not_empty(source_path, store->catalog()));
  HEADRACE_TRY_DO(measure_storage(*store, source, milliseconds(1000 * arguments.seconds), measured));
  HEADRACE_TRY(order, open_order("torch-distributed:seed=0", store->catalog()));

  const std::vector<Prospect> prospects = predict(measured, cache::content_sizes(store->catalog()), *order);
  if (source.is_bucket()) measured.requests_per_epoch = cache::sample_chunks(store->catalog());
  if (arguments.json) {
    print_json(to_json(measured, prospects));
  } else {
    print(measured, prospects);
  }
  return {};
}

}  // namespace

void add_diagnose_command(Command& program) {
  std::shared_ptr<DiagnoseArguments> arguments;
  Command& command =
      add_command(program, {kHelpCommands, "diagnose", "Find out whether a training waits for its data, and why"},
                  run_diagnose, arguments);
  command.add({.name = "TARGET",
               .target = &arguments->target,
               .help = "A source, or a mount that a training reads",
               .required = true});
  command.add({.name = "COMMAND",
               .target = &arguments->command,
               .help = "After --: a training to run and watch meanwhile; it is ended with the look"});
  command.add({.name = "--workers",
               .target = &arguments->workers,
               .value = "N",
               .help = "Processes of the loader, without headrace to compare with",
               .shows_default = true});
  command.add({.name = "--seconds",
               .target = &arguments->seconds,
               .value = "N",
               .help = "How long to look",
               .shows_default = true});
  command.add(json_flag(arguments->json));
  add_listing_options(command, arguments->cache);
  add_bucket_options(command, arguments->cache);
  add_tier_options(command, arguments->cache);
  command.footer =
      "A mount is measured while it is read: start the training first, or give it as\n"
      "COMMAND. A COMMAND that runs still after --seconds is ended with all that it has\n"
      "started. Where it fails before, its exit status is that of headrace.\n\n"
      "Examples:\n"
      "  headrace diagnose /data/train --workers 8\n"
      "  headrace diagnose /data/train --ssd /nvme/headrace:200G\n"
      "  headrace diagnose /mnt/train --seconds 30 -- python train.py";
}

}  // namespace headrace::cli
