// SPDX-License-Identifier: Apache-2.0
// headrace mount: opens the data set, mounts it and serves it until it is unmounted or told to stop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headrace/cli/daemon/handover.h"
#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

struct MountArguments {
  std::filesystem::path source;
  std::filesystem::path mount_point;
  CacheArguments cache;
  std::vector<std::string> orders = {"auto"};  // one, or one for each folder; auto: found out from the opens
  std::string records;  // how packs are read whose records the order is over; empty: samples are files
  std::uint64_t first_epoch = 0;
  std::string source_rate;  // a size: bytes a second that are read ahead; empty: no limit
  bool foreground = false;  // stays, and logs to stderr
  bool allow_other = false;
  bool overlay = false;
  std::filesystem::path scratch;  // where what is written below the mount point goes; empty: the mount is read-only
  std::uint64_t revalidate_seconds = 0;  // the source is compared with the catalog this often; 0: at the start only
  std::string log_level = "info";
  std::string metrics;             // ADDRESS:PORT or PORT of the Prometheus page; empty: none
  std::vector<std::string> words;  // the options that are in force, as a command line has them, for a handover
  int owner = -1;  // a pidfd: the mount ends with that process, and no other one is shown by its daemon; -1: nobody's
};
[[nodiscard]] io::Status run_mount(const MountArguments& arguments);

struct TakeOverArguments {
  std::uint32_t descriptor = 0;  // where the handover is read
  MountArguments mount;
};
[[nodiscard]] io::Status run_take_over(const TakeOverArguments& arguments);
// Makes the checks that mount makes before it touches anything, and nothing more.
[[nodiscard]] io::Status check_mount(const MountArguments& arguments);

// The mount point that a config file names. Errors: kInvalidArgument (no such file, it names none, or makes no sense).
[[nodiscard]] io::Result<std::filesystem::path> configured_mount_point(const std::string& file);

// Whether this program could serve a mount that another one hands over. Errors: as check_mount(), read_handover().
[[nodiscard]] io::Status check_handover(const Handover& handover);

void add_mount_command(Command& program);
// The program that an upgrade starts in the process of the one before. Not for people: --help does not list it.
void add_take_over_command(Command& program);
// Adds what says how a data set is served: memory, tiers, order, listing, bucket.
void add_served_options(Command& command, MountArguments& arguments);
// The options of a mount that were given, wherever they were given, as words of a command line.
[[nodiscard]] std::vector<std::string> words_of(const Command& command);
// Adds every setting of mount but --config. `headrace config check` reads the same settings.
void add_mount_options(Command& command, MountArguments& arguments);

}  // namespace headrace::cli
