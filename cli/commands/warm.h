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
  bool ram = false;              // of a mount: fill its RAM tier
  std::string order;             // empty: catalog order
  std::string records;           // of packs; empty: the samples are files
  std::uint64_t seed = kNoSeed;  // is added to `order` as seed=N
  std::uint64_t epoch = 0;       // the first epoch whose samples are wanted
  std::uint64_t epochs = 1;      // how many epochs
  std::string list;              // a file of paths or indexes; "-": standard input; empty: none
  std::string rate_limit;        // how much of the source is read per second; empty: no limit
  bool mine = false;             // fill the peer that this node is
  bool index = false;            // also make the indexes of JPEGs
  bool dry_run = false;          // only say what would be fetched
  bool check = false;            // only say whether the disk tiers hold everything already
  bool json = false;
};
[[nodiscard]] io::Status run_warm(const WarmArguments& arguments);

void add_warm_command(Command& program);

}  // namespace headrace::cli
