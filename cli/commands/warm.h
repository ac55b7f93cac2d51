// SPDX-License-Identifier: Apache-2.0
// headrace warm: fills tiers before a training starts, here or in the daemon of a mount.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

inline constexpr std::uint64_t kNoSeed = std::numeric_limits<std::uint64_t>::max();

struct WarmArguments {
  std::filesystem::path target;  // a mount point or a source folder
  CacheArguments cache;
  bool ram = false;              // a mount: fill its RAM tier
  std::string order;             // empty: catalog order
  std::uint64_t seed = kNoSeed;  // short for seed=N in `order`
  std::uint64_t epoch = 0;       // the first whose samples are wanted
  std::uint64_t epochs = 1;      // how many of them
  std::string list;              // file of paths or indices; "-": standard input; empty: none
  std::string rate_limit;        // bytes per second read from the source; empty: none
  bool dry_run = false;          // only say what would be fetched
  bool check = false;            // only say whether the disk tiers hold everything already
};
[[nodiscard]] io::Status run_warm(const WarmArguments& arguments);

void add_warm_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
