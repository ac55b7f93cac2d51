// SPDX-License-Identifier: Apache-2.0
// headrace simulate: what a cache of some size would bring for an order, under several policies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

struct SimulateArguments {
  std::filesystem::path source;
  CacheArguments cache;  // only how the data set is listed
  std::string order = "torch-distributed:seed=0";
  std::vector<std::string> caches = {"25%", "50%", "75%"};  // each a size or a part of the data set
  std::vector<std::string> policies = {"lru", "never-evict", "min"};
  std::uint64_t epochs = 4;
  bool json = false;
};
[[nodiscard]] io::Status run_simulate(const SimulateArguments& arguments);

void add_simulate_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
