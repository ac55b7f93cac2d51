// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/unmount.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_unmount_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<UnmountArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "unmount", "End a mount, even if its daemon died; no error if there is none"},
      run_unmount, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add_flag("--force", arguments->force,
                   "Also while samples are being read, and while processes or other namespaces hold the mount");
  command.alias("umount");
  command.footer("Example:\n  headrace unmount /mnt/train");
}

}  // namespace headrace::cli
