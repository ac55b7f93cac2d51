// SPDX-License-Identifier: Apache-2.0
// headrace tier ls, info and rm, and headrace verify: look into a disk tier, remove it, check it.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/tier_tools.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/size.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/progress.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

struct TierArguments {
  std::filesystem::path path;
  bool json = false;
};

struct VerifyArguments {
  std::filesystem::path path;  // a tier
  std::string rate_limit;      // how much is read per second; empty: no limit
  bool json = false;
};

json to_json(const cache::TierInfo& info) {
  json data_sets = json::array();
  for (const cache::TierInfo::DataSet& set : info.data_sets) {
    data_sets.push_back({{"source", set.source}, {"records", set.records}, {"bytes", set.bytes}});
  }
  return {{"version", info.version},       {"segment_bytes", info.segment_bytes},
          {"segments", info.segments},     {"segments_without_index", info.segments_without_index},
          {"disk_bytes", info.disk_bytes}, {"data_sets", std::move(data_sets)}};
}

io::Status run_tier_ls(const TierArguments& arguments) {
  HEADRACE_TRY(info, cache::describe_tier(arguments.path));
  if (arguments.json) {
    print_json(to_json(info)["data_sets"]);
    return {};
  }
  for (const cache::TierInfo::DataSet& set : info.data_sets) {
    fmt::print("{:>9} {:>8} records  {}\n", format_size(set.bytes), format_count(set.records),
               io::printable(set.source));
  }
  return {};
}

io::Status run_tier_info(const TierArguments& arguments) {
  HEADRACE_TRY(info, cache::describe_tier(arguments.path));
  if (arguments.json) {
    print_json(to_json(info));
    return {};
  }
  print_line(stdout, fmt::format("{}: {} on disk, segments: {} of {}, data sets: {}, format version {}",
                                 arguments.path.string(), format_size(info.disk_bytes), info.segments,
                                 format_size(info.segment_bytes), info.data_sets.size(), info.version));
  if (info.segments_without_index > 0) {
    print_line(stdout, fmt::format("segments without an index: {}; the next start reads them whole",
                                   info.segments_without_index));
  }
  return {};
}

io::Status run_tier_rm(const TierArguments& arguments) {
  return cache::remove_tier(arguments.path);
}

io::Status run_verify(const VerifyArguments& arguments) {
  HEADRACE_TRY(rate, parse_rate("--rate-limit", arguments.rate_limit));
  std::optional<StopSignal> stop;  // made at the first record: until then a signal may end the process at once
  std::unique_ptr<Progress> progress;
  cache::VerifyOptions options;
  options.bytes_per_second = rate;
  options.on_progress = [&](std::uint64_t bytes_done, std::uint64_t bytes_total) {
    if (!stop) stop.emplace();
    if (!progress) progress = std::make_unique<Progress>(stderr, "verifying", Amount{.bytes = bytes_total});
    progress->update({.bytes = bytes_done});
    return !stop->wait_for(std::chrono::milliseconds(0));
  };
  HEADRACE_TRY(report, cache::verify_tier(arguments.path, options));
  if (progress) progress->finish({.bytes = report.bytes});
  if (arguments.json) {
    print_json({{"records", report.records},
                {"bytes", report.bytes},
                {"damaged", report.damaged},
                {"complete", report.complete}});
  } else {
    print_line(stdout, fmt::format("{}: {} records, {}, {} damaged", arguments.path.string(), report.records,
                                   format_size(report.bytes), report.damaged));
  }
  if (!report.complete) return io::make_error(io::ErrorCode::kCancelled, "stopped by a signal");
  if (report.damaged > 0) {
    return io::make_error(io::ErrorCode::kCorrupt, fmt::format("{} damaged records were taken out; they are fetched "
                                                               "again when they are wanted",
                                                               report.damaged));
  }
  return {};
}

void add_subcommand(Command& tier, const CommandText& text, io::Status (*run)(const TierArguments&), bool offers_json) {
  std::shared_ptr<TierArguments> arguments;
  Command& command = add_command(tier, text, run, arguments);
  command.add({.name = "PATH", .target = &arguments->path, .help = "The folder of the tier", .required = true});
  if (offers_json) command.add({.name = "--json", .target = &arguments->json, .help = "Print JSON"});
  command.footer = std::string("Example:\n  headrace tier ") + text.name + " /nvme/headrace";
}

}  // namespace

void add_tier_command(Command& program) {
  Command& tier = add_command(program, {kTierCommands, "tier", "Look into a disk tier, or remove it"});
  tier.needs_command = true;
  tier.footer = "headrace tier COMMAND --help tells more about a command.";
  add_subcommand(tier, {"Commands", "ls", "List the data sets in it"}, run_tier_ls, true);
  add_subcommand(tier, {"Commands", "info", "Show what it takes on disk"}, run_tier_info, true);
  add_subcommand(tier, {"Commands", "rm", "Remove it; everything in it can be fetched again"}, run_tier_rm, false);
}

void add_verify_command(Command& program) {
  std::shared_ptr<VerifyArguments> arguments;
  Command& verify =
      add_command(program, {kTierCommands, "verify", "Read a whole disk tier and check it"}, run_verify, arguments);
  verify.add({.name = "PATH",
              .target = &arguments->path,
              .help = "The folder of the tier; no mount may use it meanwhile",
              .required = true});
  verify.add({.name = "--rate-limit",
              .target = &arguments->rate_limit,
              .value = "SIZE",
              .help = "Read at most this much per second"});
  verify.add(json_flag(arguments->json));
  verify.footer = "Example:\n  headrace verify /nvme/headrace --rate-limit 200M";
}

}  // namespace headrace::cli
