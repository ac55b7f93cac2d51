// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/stat.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_stat_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<StatArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "stat", "Show what a mount holds, has served and is doing"}, run_stat, arguments);
  add_mount_point(command, arguments->mount_point);
  CLI::Option* json = command.add_flag("--json", arguments->json, "Print one JSON object");
  command.add_flag("--watch,-w", arguments->watch, "Show it again every second until Ctrl-C")->excludes(json);
  command.footer("Example:\n  headrace stat /mnt/train --watch");
}

}  // namespace headrace::cli
