// SPDX-License-Identifier: Apache-2.0
// headrace stat: what a mount holds, has served and is doing.
#pragma once

#include <filesystem>

#include "headrace/cli/options/command.h"
#include "headrace/cli/show/watch.h"

namespace headrace::cli {

struct StatArguments {
  std::filesystem::path mount_point;
  bool json = false;
  bool watch = false;  // show the figures again each second until a signal comes
};
[[nodiscard]] io::Status run_stat(const StatArguments& arguments);
// One look at the figures of a mount, for those who compare two of them.
[[nodiscard]] io::Result<WatchSample> look_at_mount(const std::filesystem::path& mount_point);
// Runs stat --watch.
[[nodiscard]] io::Status run_watch(const std::filesystem::path& mount_point);

void add_stat_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
