// SPDX-License-Identifier: Apache-2.0
// headrace refresh: has the daemon of a mount compare the source with its catalog, and tells what it found.
#pragma once

#include <filesystem>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

struct RefreshArguments {
  std::filesystem::path mount_point;
};
[[nodiscard]] io::Status run_refresh(const RefreshArguments& arguments);

void add_refresh_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
