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
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

struct RefreshArguments {
  std::filesystem::path mount_point;
  bool json = false;
};

constexpr std::chrono::milliseconds kPollInterval{50};

io::Status run_refresh(const RefreshArguments& arguments) {
  const std::filesystem::path mount_point = canonical_path(arguments.mount_point);
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
  add_mount_point(command, arguments->mount_point);
  command.add_flag("--json", arguments->json, "Print one JSON object");
  command.footer("Example:\n  headrace refresh /mnt/train");
}

}  // namespace headrace::cli
