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

io::Status run_refresh(const RefreshArguments& arguments) {
  HEADRACE_TRY(given, mount_point_of(arguments));
  const std::filesystem::path mount_point = canonical_path(given);
  io::Result<json> state = call_daemon(mount_point, "refresh", json::object());
  while (state && flag_of(*state, "running")) {
    std::this_thread::sleep_for(kPollInterval);
    state = call_daemon(mount_point, "refresh-state", json::object());
  }
  if (!state) return io::forward_error(std::move(state));
  if (const std::string failure = text_of(*state, "failure"); !failure.empty()) {
    return io::make_error(io::ErrorCode::kSystem, "the source could not be compared: " + failure);
  }
  if (arguments.json) {
    print_json({{"changed", number_of(*state, "changed")},
                {"vanished", number_of(*state, "vanished")},
                {"appeared", number_of(*state, "appeared")}});
    return {};
  }
  fmt::print("{} files changed, {} vanished\n", number_of(*state, "changed"), number_of(*state, "vanished"));
  if (const std::uint64_t appeared = number_of(*state, "appeared"); appeared > 0) {
    fmt::print("{} names are new: unmount and mount to see them\n", appeared);
  }
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
  command.footer("Examples:\n  headrace refresh /mnt/train\n  headrace refresh --config /etc/headrace/train.toml");
}

}  // namespace headrace::cli
