// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/warm.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/tier_tools.h"
#include "headrace/cli/daemon/memcached.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/daemon/stats_json.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/size.h"
#include "headrace/cli/setup/spooled_list.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/progress.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/cli/warm/index_warm.h"
#include "headrace/cli/warm/warm_plan.h"
#include "headrace/cli/warm/warmer.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using nlohmann::json;

// Names in the document of --json.
constexpr const char* kDiskForecast = "disk_forecast";
constexpr const char* kRamForecast = "ram_forecast";

constexpr std::chrono::milliseconds kStep{100};  // between two looks at the progress

// --seed N means seed=N in the order.
io::Result<std::string> with_seed(const std::string& order, std::uint64_t seed) {
  if (seed == kNoSeed) return order;
  if (order.find("seed=") != std::string::npos) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--order {} has a seed already; leave --seed out", order));
  }
  const std::string spec = order.empty() ? "torch-distributed" : order;
  return fmt::format("{}{}seed={}", spec, spec.find(':') == std::string::npos ? ':' : ',', seed);
}

// --list FILE means an order of one epoch.
io::Result<std::string> order_spec(const WarmArguments& arguments, SpooledList& spooled) {
  if (arguments.list.empty()) {
    return with_seed(arguments.order, arguments.seed).map([](const std::string& spec) {
      return absolute_order_spec(spec);
    });
  }
  if (!arguments.order.empty() || arguments.seed != kNoSeed) {
    return make_error(ErrorCode::kInvalidArgument, "--list excludes --order and --seed: the list is the order");
  }
  return spooled.path_of(arguments.list).map([](const fs::path& path) { return "file:" + path.string(); });
}

// What was found or done: lines as they come, or with --json one document at the end, also of what failed.
class Report {
 public:
  explicit Report(bool as_json) : as_json_(as_json) {}
  // `name`: of the figures in the document.
  void add(const char* name, json figures, const std::string& line) {
    if (!as_json_) return print_line(stdout, line);
    document_[name] = std::move(figures);
  }
  void finish() const {
    if (as_json_ && !document_.empty()) print_json(document_);
  }

 private:
  const bool as_json_;
  json document_ = json::object();
};

void add_forecast(Report& report, const char* name, const std::string& what, const Forecast& forecast) {
  report.add(name, to_json(forecast), what + ": " + summarise(forecast));
}

// For --check: an error when something is missing.
io::Status report_check(Report& report, const fs::path& target, const Forecast& forecast) {
  report.add(
      kDiskForecast, to_json(forecast),
      fmt::format("{}: {} of {} samples, {} of {} held", target.string(), forecast.held.samples,
                  forecast.wanted.samples, format_size(forecast.held.bytes), format_size(forecast.wanted.bytes)));
  const std::uint64_t missing = forecast.wanted.samples - forecast.held.samples;
  if (missing == 0) return {};
  return make_error(ErrorCode::kNotFound, fmt::format("{}: {} samples are missing; warm without --check fetches them",
                                                      target.string(), missing));
}

// --check and --dry-run only look: they make no tier and evict nothing. So tiers that do not exist are left out, and a
// tier that is larger than the budget given here keeps its size.
io::Status open_only_what_exists(std::vector<cache::TierOptions>& tiers) {
  std::vector<cache::TierOptions> existing;
  for (cache::TierOptions& tier : tiers) {
    const io::Result<cache::TierInfo> info = cache::describe_tier(tier.path);
    if (!info && info.error().code == io::ErrorCode::kNotFound) continue;
    if (!info) return tl::unexpected<io::Error>(info.error());
    tier.budget_bytes = std::max(tier.budget_bytes, info->segments * info->segment_bytes);
    existing.push_back(std::move(tier));
  }
  tiers = std::move(existing);
  return {};
}

io::Result<Wanted> find_wanted_of(const WarmArguments& arguments, const std::string& spec, const Source& source,
                                  const cache::Catalog& catalog) {
  WantedOptions options{.order = spec, .first_epoch = arguments.epoch, .epochs = arguments.epochs};
  if (!arguments.records.empty()) {
    HEADRACE_TRY(records, open_packs(source, catalog, arguments.cache, arguments.records));
    options.records = std::move(records);
  }
  return find_wanted(options, catalog);
}

io::Status look(const Source& source, cache::StoreOptions options, const std::string& spec,
                const WarmArguments& arguments, Report& report, StopSignal& stop) {
  std::uint64_t room_bytes = 0;
  for (const cache::TierOptions& tier : options.tiers) room_bytes += tier.budget_bytes;
  HEADRACE_TRY_DO(open_only_what_exists(options.tiers));
  HEADRACE_TRY(store, open_store(options, stop));
  HEADRACE_TRY(wanted, find_wanted_of(arguments, spec, source, store->catalog()));
  const Forecast forecast = forecast_disk(wanted, *store, room_bytes);
  if (arguments.check) return report_check(report, source.path, forecast);
  add_forecast(report, kDiskForecast, source.path, forecast);
  return {};
}

io::Status fill_tiers(cache::Store& store, std::vector<cache::EntryId> entries, const WarmerOptions& options,
                      const Source& source, Report& report, StopSignal& stop) {
  Warmer warmer(store, std::move(entries), options);
  Progress progress(stderr, "warming", warmer.state().total);
  const OnStop on_stop(stop, [&] { warmer.cancel(); });
  while (!warmer.wait_for(kStep)) progress.update(warmer.state().done);
  const WarmerState end = warmer.state();
  progress.finish(end.done);
  const double seconds = progress.elapsed_seconds();
  report.add(options.to_peers ? "peers" : "disk", to_json(end, seconds),
             source.path.string() + ": " + summarise(end, seconds));
  return check_outcome(end);
}

io::Status index_source(cache::Store& store, const std::vector<cache::EntryId>& entries, const Source& source,
                        Report& report, StopSignal& stop) {
  const auto started = std::chrono::steady_clock::now();
  HEADRACE_TRY(state, make_indexes(store, entries, stop));
  const double seconds = seconds_since(started);
  report.add("index", to_json(state, seconds), source.path.string() + ": " + summarise(state, seconds));
  return check_outcome(state);
}

// Of what is wanted, what this node is to hold for all that share.
io::Result<std::vector<cache::EntryId>> own_part(const Source& source, const cache::SharedTierOptions& shared,
                                                 const Wanted& wanted, const cache::Catalog& catalog) {
  HEADRACE_TRY(memcached, plan_memcached(shared, true));
  return only_of_peer(wanted,
                      {.data_set = source.path.string(),
                       .peers = shared.peers,
                       .bytes_per_peer = shared.bytes_per_peer,
                       .peer = memcached.peer},
                      catalog);
}

io::Status check_mine(const WarmArguments& arguments, bool has_tier) {
  if (has_tier) return make_error(ErrorCode::kInvalidArgument, "--mine fills no disk tier; leave --ssd and --hdd out");
  if (!arguments.cache.peers.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument, "--mine: who shares? Say it, for instance --peers n1,n2 --share 64G");
}

// A source without a tier: only its indexes can be made.
io::Status check_without_tier(const WarmArguments& arguments) {
  if (!arguments.index) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a source folder: name the tier to fill, --ssd PATH:SIZE or --hdd PATH:SIZE",
                                  arguments.target.string()));
  }
  if (arguments.rate_limit.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument, "--rate-limit is for filling a tier; --index alone reads without one");
}

io::Status warm_source(const WarmArguments& arguments, const std::string& spec, std::uint64_t rate, Report& report) {
  const bool has_tier = !arguments.cache.ssd.empty() || !arguments.cache.hdd.empty();
  if (arguments.ram) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--ram is for a mount; without a mount the RAM tier would end with this command");
  }
  HEADRACE_TRY(source, open_source(arguments.target));
  if (arguments.mine) HEADRACE_TRY_DO(check_mine(arguments, has_tier));
  if (!has_tier && !arguments.mine) HEADRACE_TRY_DO(check_without_tier(arguments));
  HEADRACE_TRY(options, make_store_options(source, arguments.cache, "0"));
  StopSignal stop;
  if (arguments.dry_run || arguments.check) return look(source, std::move(options), spec, arguments, report, stop);
  HEADRACE_TRY(store, open_store(options, stop));
  HEADRACE_TRY(wanted, find_wanted_of(arguments, spec, source, store->catalog()));
  if (has_tier) HEADRACE_TRY_DO(fill_tiers(*store, wanted.entries, {rate, false}, source, report, stop));
  if (arguments.mine) {
    HEADRACE_TRY(mine, own_part(source, options.shared, wanted, store->catalog()));
    HEADRACE_TRY_DO(fill_tiers(*store, std::move(mine), {rate, true}, source, report, stop));
  }
  return arguments.index ? index_source(*store, wanted.entries, source, report, stop) : io::Status{};
}

json warm_request(const WarmArguments& arguments, const std::string& spec, std::uint64_t rate, bool disk) {
  return {{"ram", arguments.ram || (!disk && !arguments.mine)},
          {"disk", disk && !arguments.mine},
          {"mine", arguments.mine},
          {"order", spec},
          {"epoch", arguments.epoch},
          {"epochs", arguments.epochs},
          {"rate_bytes_per_second", rate}};
}

bool has_disk_tier(const json& stat) {
  const json& tiers = member_of(member_of(stat, "store"), "tiers");
  return std::any_of(tiers.begin(), tiers.end(), is_disk_tier);
}

io::Status look_at_mount(const WarmArguments& arguments, const json& request, Report& report) {
  if (arguments.check && request["ram"] == true) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--check looks into disk tiers; headrace stat {} shows what the memory holds",
                                  arguments.target.string()));
  }
  HEADRACE_TRY(found, call_daemon(arguments.target, "warm-forecast", request));
  const std::string target = arguments.target.string();
  if (arguments.check) return report_check(report, target, forecast_from_json(member_of(found, "disk")));
  if (found.contains("disk")) {
    add_forecast(report, kDiskForecast, target + ": disk tiers", forecast_from_json(found["disk"]));
  }
  if (found.contains("ram")) {
    add_forecast(report, kRamForecast, target + ": RAM tier", forecast_from_json(found["ram"]));
  }
  return {};
}

// Shows the daemon's progress until its job ends. A signal stops the job.
io::Result<json> follow_job(const fs::path& mount_point) {
  StopSignal stop;
  std::string phase;
  std::unique_ptr<Progress> progress;
  while (true) {
    if (stop.wait_for(kStep)) {
      (void)call_daemon(mount_point, "warm-stop", json::object());
      return make_error(ErrorCode::kCancelled, "stopped by a signal; call again to go on");
    }
    HEADRACE_TRY(state, query_daemon(mount_point, "warm-state"));
    const Amount done{.samples = number_of(state, "samples"), .bytes = number_of(state, "bytes")};
    if (const std::string now = text_of(state, "phase"); now != phase) {
      phase = now;
      const Amount total{.samples = number_of(state, "samples_total"), .bytes = number_of(state, "bytes_total")};
      progress = std::make_unique<Progress>(stderr, "warming " + phase, total);
    }
    if (state.value("finished", true)) {
      if (progress) progress->finish(done);
      return state;
    }
    if (progress) progress->update(done);
  }
}

// Memory is filled as the mount reads ahead, along its own order.
io::Status check_memory_alone(const WarmArguments& arguments) {
  const bool chooses = !arguments.list.empty() || !arguments.order.empty() || arguments.seed != kNoSeed ||
                       arguments.epoch != 0 || arguments.epochs != 1;
  if (!chooses && arguments.rate_limit.empty()) return {};
  const std::string target = arguments.target.string();
  return make_error(
      ErrorCode::kInvalidArgument,
      chooses
          ? fmt::format("{0} has no disk tier, and its memory is filled along the order of the mount; headrace pin "
                        "{0} holds files that are named, headrace order set {0} tells an order",
                        target)
          : fmt::format("{0} has no disk tier; --rate-limit is for filling one, and headrace set {0} source-rate=SIZE "
                        "for memory",
                        target));
}

io::Status warm_mount(const WarmArguments& arguments, const std::string& spec, std::uint64_t rate, Report& report) {
  if (!arguments.cache.ssd.empty() || !arguments.cache.hdd.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a mount and has the tiers that it was mounted with; leave --ssd and --hdd out",
                                  arguments.target.string()));
  }
  HEADRACE_TRY(stat, query_daemon(arguments.target, "stat"));
  if (!arguments.records.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{0} is a mount; name its source and the tier: headrace warm {1} --records {2} --ssd "
                                  "PATH:SIZE",
                                  arguments.target.string(), text_of(stat, "source"), arguments.records));
  }
  if (arguments.index) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a mount; make the indexes from its source: headrace warm --index {}",
                                  arguments.target.string(), text_of(stat, "source")));
  }
  const json request = warm_request(arguments, spec, rate, has_disk_tier(stat));
  if (arguments.dry_run || arguments.check) return look_at_mount(arguments, request, report);
  if (request["disk"] == false && !arguments.mine) HEADRACE_TRY_DO(check_memory_alone(arguments));
  HEADRACE_TRY(started, call_daemon(arguments.target, "warm", request));
  HEADRACE_TRY(end, follow_job(arguments.target));
  if (arguments.json) {
    for (const auto& [phase, figures] : member_of(end, "results").items()) report.add(phase.c_str(), figures, "");
  } else {
    for (const json& line : member_of(end, "summary")) {
      print_line(stdout, arguments.target.string() + ": " + line.get<std::string>());
    }
  }
  const std::string error = text_of(end, "error");
  if (!error.empty()) return make_error(ErrorCode::kSystem, error);
  return {};
}

}  // namespace

io::Status run_warm(const WarmArguments& arguments) {
  SpooledList spooled;
  HEADRACE_TRY(spec, order_spec(arguments, spooled));
  HEADRACE_TRY(rate, parse_rate("--rate-limit", arguments.rate_limit));
  HEADRACE_TRY(version, call_daemon_if_mounted(arguments.target, "version"));
  Report report(arguments.json);
  io::Status done = version ? warm_mount(arguments, spec, rate, report) : warm_source(arguments, spec, rate, report);
  report.finish();
  if (!done) spooled.rename_in(done.error().context);
  return done;
}

}  // namespace headrace::cli
