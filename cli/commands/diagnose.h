// SPDX-License-Identifier: Apache-2.0
// headrace diagnose: whether a training waits for its data, and why.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

struct DiagnoseArguments {
  std::filesystem::path target;  // source folder or mount point
  CacheArguments cache;
  std::uint32_t seconds = 10;        // how long the loader is watched, and how long storage and decoding are measured
  std::vector<std::string> command;  // starts the training that is watched; empty: it runs already
  bool json = false;
};
[[nodiscard]] io::Status run_diagnose(const DiagnoseArguments& arguments);

void add_diagnose_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
