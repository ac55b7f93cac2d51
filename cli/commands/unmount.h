// SPDX-License-Identifier: Apache-2.0
// headrace unmount: ends a mount, whether its daemon lives or not, and waits until the daemon is gone.
#pragma once

#include <filesystem>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

struct UnmountArguments {
  std::filesystem::path mount_point;
  bool force = false;  // also while it is being read; ends a daemon that others hold
};
[[nodiscard]] io::Status run_unmount(const UnmountArguments& arguments);

void add_unmount_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
