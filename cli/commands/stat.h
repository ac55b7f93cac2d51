// SPDX-License-Identifier: Apache-2.0
// headrace stat: what a mount holds, has served and is doing.
#pragma once

#include <filesystem>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

struct StatArguments {
  std::filesystem::path mount_point;
  bool json = false;
  bool watch = false;  // until a signal comes
};
[[nodiscard]] io::Status run_stat(const StatArguments& arguments);
// stat --watch: a new picture each second until a signal comes.
[[nodiscard]] io::Status run_watch(const std::filesystem::path& mount_point);

void add_stat_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
