// SPDX-License-Identifier: Apache-2.0
// headrace report: a page of what a mount did while it was watched.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/report_page.h"
#include "headrace/cli/show/watch.h"

namespace headrace::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct ReportArguments {
  std::filesystem::path mount_point;
  std::uint64_t seconds = 60;
};

constexpr std::uint64_t kSecondsMax = std::uint64_t{7} * 24 * 3600;  // a run of a week
constexpr std::uint64_t kLooks = 200;                                // a plot shows no more

// At least 50 ms, so that a short look has a course too.
milliseconds pause_of(std::uint64_t seconds) {
  return milliseconds(std::max<std::uint64_t>(1000 * seconds / kLooks, 50));
}

io::Status run_report(const ReportArguments& arguments) {
  if (arguments.seconds == 0 || arguments.seconds > kSecondsMax) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("--seconds {}: choose 1 to {}", arguments.seconds, kSecondsMax));
  }
  if (::isatty(STDOUT_FILENO) != 0) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          "the report is a page of HTML: write it to a file, headrace report MOUNTPOINT > run.html");
  }
  StopSignal stop;
  WatchHistory history;
  HEADRACE_TRY(first, query_daemon(arguments.mount_point, "stat"));
  history.add(sample_from(first));
  const auto end = steady_clock::now() + std::chrono::seconds(arguments.seconds);
  json last = first;
  bool stopped = false;
  while (!stopped && steady_clock::now() < end) {
    stopped = stop.wait_for(pause_of(arguments.seconds));
    io::Result<json> now = query_daemon(arguments.mount_point, "stat");
    if (!now) break;  // the mount has ended with its training: what was seen is the report
    history.add(sample_from(*now));
    last = std::move(*now);
  }
  fmt::print("{}", draw_report({.first = first, .last = last}, history));
  return {};
}

}  // namespace

void add_report_command(Command& program) {
  std::shared_ptr<ReportArguments> arguments;
  Command& command =
      add_command(program, {kHelpCommands, "report", "Watch a mount for a while and print a page of HTML with plots"},
                  run_report, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add({.name = "--seconds",
               .target = &arguments->seconds,
               .value = "N",
               .help = "How long to watch it",
               .shows_default = true});
  command.footer =
      "The page needs nothing else: no scripts, nothing from elsewhere. Ctrl-C, or the\n"
      "end of the mount, ends the watch before its time; the page is printed then, too.\n\n"
      "Example:\n  headrace report /mnt/train --seconds 600 > run.html";
}

}  // namespace headrace::cli
