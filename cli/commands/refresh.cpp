// SPDX-License-Identifier: Apache-2.0
// headrace refresh: has the daemon of a mount compare the source with its catalog, and tells what it found.
#include <filesystem>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/daemon/comparison.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {
namespace {

struct RefreshArguments {
  std::filesystem::path mount_point;
  std::string config;  // the file that names it instead; empty: none
  bool json = false;
};

io::Result<std::filesystem::path> mount_point_of(const RefreshArguments& arguments) {
  if (arguments.config.empty() != arguments.mount_point.empty()) {
    return arguments.config.empty() ? arguments.mount_point : configured_mount_point(arguments.config);
  }
  return io::make_error(io::ErrorCode::kInvalidArgument, "refresh needs MOUNTPOINT, or --config FILE that names it");
}

io::Status run_refresh(const RefreshArguments& arguments) {
  HEADRACE_TRY(given, mount_point_of(arguments));
  const std::filesystem::path mount_point = canonical_path(given);
  HEADRACE_TRY(found, compare_source(mount_point));
  if (arguments.json) {
    print_json({{"changed", found.changed},
                {"vanished", found.vanished},
                {"appeared", found.appeared},
                {"shown", found.is_shown}});
    return {};
  }
  fmt::print("{} files changed, {} vanished\n", found.changed, found.vanished);
  if (found.appeared > 0 && found.is_shown) fmt::print("{} names are new, and are shown\n", found.appeared);
  const std::string& why = found.why_not_shown;
  if (found.is_shown || why.empty()) return {};
  if (found.appeared > 0) fmt::print("{} names are new, and are not shown: {}\n", found.appeared, why);
  if (found.appeared == 0) fmt::print("names that have vanished are still shown: {}\n", why);
  return {};
}

}  // namespace

void add_refresh_command(Command& program) {
  std::shared_ptr<RefreshArguments> arguments;
  Command& command = add_command(program, {kMountCommands, "refresh", "Look for changes of a mount's source now"},
                                 run_refresh, arguments);
  command.add({.name = "MOUNTPOINT", .target = &arguments->mount_point, .help = "Where it is mounted"});
  command.add({.name = "--config",
               .target = &arguments->config,
               .value = "FILE",
               .help = "The config file of the mount, which names the mount point"});
  command.add(json_flag(arguments->json));
  command.footer =
      "Files that changed are served as they are now. Names that are new are shown, and\n"
      "those that have gone are not; readers go on, and wait as long as when a worker\n"
      "is replaced.\n\n"
      "Examples:\n  headrace refresh /mnt/train\n  headrace refresh --config /etc/headrace/train.toml";
}

}  // namespace headrace::cli
