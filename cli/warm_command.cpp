// SPDX-License-Identifier: Apache-2.0
// headrace warm: fills tiers ahead of need, here or in the daemon of a mount.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "headrace/cache/revalidate.h"
#include "headrace/cli/commands.h"
#include "headrace/cli/daemon.h"
#include "headrace/cli/data_set.h"
#include "headrace/cli/places.h"
#include "headrace/cli/progress.h"
#include "headrace/cli/protocol.h"
#include "headrace/cli/size.h"
#include "headrace/cli/warmer.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using nlohmann::json;

constexpr std::chrono::milliseconds kStep{100};  // how often progress is looked at

// A list on standard input, kept in a file for as long as the command runs: the daemon has no standard input of ours.
class SpooledList {
 public:
  SpooledList() = default;
  ~SpooledList() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  SpooledList(const SpooledList&) = delete;
  SpooledList& operator=(const SpooledList&) = delete;

  [[nodiscard]] io::Result<fs::path> read_standard_input() {
    io::Result<fs::path> directory = runtime_directory();
    if (!directory) return directory;
    std::string name = (*directory / "list-XXXXXX").string();
    io::UniqueFd fd(::mkstemp(name.data()));
    if (fd.get() < 0) return io::system_error(errno, "make " + name);
    path_ = name;
    std::ofstream(path_, std::ios::binary) << std::cin.rdbuf();
    return path_;
  }

 private:
  fs::path path_;
};

// --list is a short way to write an order that has one epoch.
io::Result<std::string> order_spec(const WarmArguments& arguments, SpooledList& spooled) {
  if (arguments.list.empty()) return absolute_order_spec(arguments.order);
  if (!arguments.order.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--list and --order exclude each other; give one of them");
  }
  if (arguments.list != "-") return absolute_order_spec("file:" + arguments.list);
  return spooled.read_standard_input().map([](const fs::path& path) { return "file:" + path.string(); });
}

io::Status check_outcome(const WarmerState& state) {
  if (state.cancelled) return make_error(ErrorCode::kCancelled, "stopped by a signal; call again to go on");
  if (state.failed > 0) return make_error(ErrorCode::kSystem, fmt::format("{} samples failed", state.failed));
  return {};
}

// What is read once per epoch hits a tier as often as the tier holds a part of it.
void print_forecast(const fs::path& target, const Amount& wanted, std::uint64_t room_bytes) {
  const std::uint64_t held = std::min(wanted.bytes, room_bytes);
  const double ratio = wanted.bytes == 0 ? 1 : static_cast<double>(held) / static_cast<double>(wanted.bytes);
  fmt::print("{}: {} samples, {} wanted, room for {}: up to {} to fetch, predicted hit ratio {:.2f}\n", target.string(),
             wanted.samples, format_size(wanted.bytes), format_size(room_bytes), format_size(held), ratio);
}

io::Status forecast(const Source& source, const cache::StoreOptions& options, const std::string& spec,
                    std::uint64_t epoch) {
  const io::Result<cache::Catalog> catalog =
      cache::open_catalog(source.directory.get(), options.catalog, options.catalog_file);
  if (!catalog) return tl::unexpected(catalog.error());
  const io::Result<std::vector<cache::EntryId>> entries = select_entries(spec, epoch, *catalog);
  if (!entries) return tl::unexpected(entries.error());
  Amount wanted{.samples = entries->size()};
  for (const cache::EntryId entry : *entries) wanted.bytes += catalog->size_bytes(entry);
  std::uint64_t room_bytes = 0;
  for (const cache::TierOptions& tier : options.tiers) room_bytes += tier.budget_bytes;
  print_forecast(source.path, wanted, room_bytes);
  return {};
}

io::Status warm_source(const WarmArguments& arguments, const std::string& spec, std::uint64_t rate) {
  if (arguments.cache.ssd.empty() && arguments.cache.hdd.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a source folder: name the tier to fill, --ssd PATH:SIZE or --hdd PATH:SIZE",
                                  arguments.target.string()));
  }
  if (arguments.ram) {
    return make_error(ErrorCode::kInvalidArgument, "--ram is for a mount; the RAM tier of a folder ends with warm");
  }
  io::Result<Source> source = open_source(arguments.target);
  if (!source) return io::forward_error(std::move(source));
  io::Result<cache::StoreOptions> options = make_store_options(*source, arguments.cache, "0");
  if (!options) return io::forward_error(std::move(options));
  if (arguments.dry_run) return forecast(*source, *options, spec, arguments.epoch);
  StopSignal stop;
  io::Result<std::unique_ptr<cache::Store>> store = cache::Store::open(std::move(*options));
  if (!store) return io::forward_error(std::move(store));
  io::Result<std::vector<cache::EntryId>> entries = select_entries(spec, arguments.epoch, (*store)->catalog());
  if (!entries) return io::forward_error(std::move(entries));

  Warmer warmer(**store, std::move(*entries), {.rate_bytes_per_second = rate});
  Progress progress(stderr, "warming", warmer.state().total);
  const OnStop on_stop(stop, [&] { warmer.cancel(); });
  while (!warmer.wait_for(kStep)) progress.update(warmer.state().done);
  const WarmerState end = warmer.state();
  progress.finish(end.done);
  fmt::print("{}: {}\n", source->path.string(), summarise(end, progress.elapsed_seconds()));
  return check_outcome(end);
}

json warm_request(const WarmArguments& arguments, const std::string& spec, std::uint64_t rate, bool disk) {
  return {{"ram", arguments.ram || !disk},
          {"disk", disk},
          {"order", spec},
          {"epoch", arguments.epoch},
          {"rate_bytes_per_second", rate}};
}

bool has_disk_tier(const json& stat) {
  for (const json& tier : stat["store"]["tiers"]) {
    if (tier["kind"] == "ssd" || tier["kind"] == "hdd") return true;
  }
  return false;
}

// Bytes that the tiers of a mount may hold, its page cache included.
std::uint64_t room_of(const json& stat) {
  std::uint64_t bytes = stat["mount"].value("budget_bytes", std::uint64_t{0});
  for (const json& tier : stat["store"]["tiers"]) {
    if (tier["kind"] == "ssd" || tier["kind"] == "hdd") bytes += tier.value("budget_bytes", std::uint64_t{0});
  }
  return bytes;
}

// Shows the daemon's progress until its job ends; a signal tells it to stop.
io::Result<json> follow_job(const fs::path& mount_point) {
  StopSignal stop;
  std::string phase;
  std::unique_ptr<Progress> progress;
  const json none = json::object();
  while (true) {
    if (stop.wait_for(kStep)) {
      (void)call_daemon(mount_point, "warm-stop", none);
      return make_error(ErrorCode::kCancelled, "stopped by a signal; call again to go on");
    }
    io::Result<json> state = call_daemon(mount_point, "warm-state", none);
    if (!state) return state;
    const Amount done{.samples = state->value("samples", 0ULL), .bytes = state->value("bytes", 0ULL)};
    if (const std::string now = state->value("phase", ""); now != phase) {
      phase = now;
      const Amount total{.samples = state->value("samples_total", 0ULL), .bytes = state->value("bytes_total", 0ULL)};
      progress = std::make_unique<Progress>(stderr, "warming " + phase, total);
    }
    if (state->value("finished", true)) {
      if (progress) progress->finish(done);
      return state;
    }
    if (progress) progress->update(done);
  }
}

io::Status warm_mount(const WarmArguments& arguments, const std::string& spec, std::uint64_t rate) {
  if (!arguments.cache.ssd.empty() || !arguments.cache.hdd.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a mount and has the tiers that it was mounted with; leave --ssd and --hdd out",
                                  arguments.target.string()));
  }
  const io::Result<json> stat = call_daemon(arguments.target, "stat", json::object());
  if (!stat) return tl::unexpected(stat.error());
  const bool disk = has_disk_tier(*stat);
  if (arguments.dry_run) {
    const json& data = (*stat)["data_set"];
    print_forecast(arguments.target, {.samples = data["samples"], .bytes = data["bytes"]}, room_of(*stat));
    return {};
  }
  io::Result<json> started = call_daemon(arguments.target, "warm", warm_request(arguments, spec, rate, disk));
  if (!started) return io::forward_error(std::move(started));
  io::Result<json> end = follow_job(arguments.target);
  if (!end) return io::forward_error(std::move(end));
  for (const json& line : end->value("summary", json::array())) {
    fmt::print("{}: {}\n", arguments.target.string(), line.get<std::string>());
  }
  const std::string error = end->value("error", "");
  if (!error.empty()) return make_error(ErrorCode::kInvalidArgument, error);
  return {};
}

}  // namespace

io::Status run_warm(const WarmArguments& arguments) {
  SpooledList spooled;
  io::Result<std::string> spec = order_spec(arguments, spooled);
  if (!spec) return io::forward_error(std::move(spec));
  io::Result<std::uint64_t> rate = arguments.rate_limit.empty() ? 0 : parse_size(arguments.rate_limit);
  if (!rate) return make_error(ErrorCode::kInvalidArgument, "--rate-limit " + rate.error().context);
  const bool is_mount = call_daemon(arguments.target, "version", json::object()).has_value();
  return is_mount ? warm_mount(arguments, *spec, *rate) : warm_source(arguments, *spec, *rate);
}

}  // namespace headrace::cli
