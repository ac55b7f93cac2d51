// SPDX-License-Identifier: Apache-2.0
// headrace refresh: has the daemon of a mount compare the source with its catalog, and tells what it found.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

struct RefreshArguments {
  std::filesystem::path mount_point;
  std::string config;  // the file that names it instead; empty: none
  bool json = false;
};

constexpr std::chrono::milliseconds kPollInterval{50};

io::Result<std::filesystem::path> mount_point_of(const RefreshArguments& arguments) {
  if (arguments.config.empty() != arguments.mount_point.empty()) {
    return arguments.config.empty() ? arguments.mount_point : configured_mount_point(arguments.config);
  }
  return io::make_error(io::ErrorCode::kInvalidArgument, "refresh needs MOUNTPOINT, or --config FILE that names it");
}

// Where names are others, the process that compared has gone, and the one that shows them says how many they were.
struct Found {
  std::uint64_t changed = 0;
  std::uint64_t vanished = 0;
  std::uint64_t appeared = 0;
  bool is_shown = false;  // what appeared
};

Found found_by(const json& state, std::uint64_t renewals_before) {
  const bool is_renewed = number_of(state, "renewals") > renewals_before;
  const json& from = is_renewed ? member_of(state, "renewed") : state;
  return {number_of(from, "changed"), number_of(from, "vanished"), number_of(from, "appeared"), is_renewed};
}

// A process that makes way for another one just now breaks off. The next one is asked the same.
io::Result<json> ask(const std::filesystem::path& mount_point, const char* command) {
  constexpr int kTries = 3;
  io::Result<json> state = call_daemon(mount_point, command, json::object());
  for (int i = 1; i < kTries && !state && state.error().code == io::ErrorCode::kNotFound; ++i) {
    state = call_daemon(mount_point, command, json::object());
  }
  return state;
}

io::Status run_refresh(const RefreshArguments& arguments) {
  HEADRACE_TRY(given, mount_point_of(arguments));
  const std::filesystem::path mount_point = canonical_path(given);
  io::Result<json> state = ask(mount_point, "refresh");
  const std::uint64_t renewals_before = state ? number_of(*state, "renewals") : 0;
  while (state && flag_of(*state, "running")) {
    std::this_thread::sleep_for(kPollInterval);
    state = ask(mount_point, "refresh-state");
  }
  if (!state) return io::forward_error(std::move(state));
  if (const std::string failure = text_of(*state, "failure"); !failure.empty()) {
    return io::make_error(io::ErrorCode::kSystem, "the source could not be compared: " + failure);
  }
  const Found found = found_by(*state, renewals_before);
  if (arguments.json) {
    print_json({{"changed", found.changed},
                {"vanished", found.vanished},
                {"appeared", found.appeared},
                {"shown", found.is_shown}});
    return {};
  }
  fmt::print("{} files changed, {} vanished\n", found.changed, found.vanished);
  if (found.appeared > 0 && found.is_shown) fmt::print("{} names are new, and are shown\n", found.appeared);
  const std::string why = text_of(*state, "why_not_shown");
  if (found.is_shown || why.empty()) return {};
  if (found.appeared > 0) fmt::print("{} names are new, and are not shown: {}\n", found.appeared, why);
  if (found.appeared == 0) fmt::print("names that have vanished are still shown: {}\n", why);
  return {};
}

}  // namespace

void add_refresh_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<RefreshArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "refresh", "Look for changes of a mount's source now"}, run_refresh, arguments);
  command.add_option("MOUNTPOINT", arguments->mount_point, "Where it is mounted");
  command.add_option("--config", arguments->config, "The config file of the mount, which names the mount point")
      ->type_name("FILE");
  command.add_flag("--json", arguments->json, "Print one JSON object");
  command.footer(
      "Files that changed are served as they are now. Names that are new are shown, and\n"
      "those that have gone are not; readers go on, and wait as long as when a worker\n"
      "is replaced.\n\n"
      "Examples:\n  headrace refresh /mnt/train\n  headrace refresh --config /etc/headrace/train.toml");
}

}  // namespace headrace::cli
