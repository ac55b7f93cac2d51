// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/refresh.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_refresh_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<RefreshArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "refresh", "Look for changes of a mount's source now"}, run_refresh, arguments);
  add_mount_point(command, arguments->mount_point);
  command.footer("Example:\n  headrace refresh /mnt/train");
}

}  // namespace headrace::cli
