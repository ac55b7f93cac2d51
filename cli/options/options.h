// SPDX-License-Identifier: Apache-2.0
// Adds commands to the command line, and holds the options that several commands share.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

struct CommandText {
  const char* group;
  const char* name;
  const char* description;
};

// -v: what the log says of ordinary events goes to stderr, too. `mount` has --log-level instead, for the log of its
// daemon.
void add_verbose_flag(Command& command);

// Adds a command below another one.
Command& add_command(Command& above, const CommandText& text);
// Has it run with arguments that live as long as the table.
template <typename Arguments>
Command& add_command(Command& above, const CommandText& text, io::Status (*run)(const Arguments&),
                     std::shared_ptr<Arguments>& arguments) {
  arguments = std::make_shared<Arguments>();
  Command& command = add_command(above, text);
  add_verbose_flag(command);
  command.run = [run, arguments] { return run(*arguments); };
  return command;
}

// Headings of the list of commands.
inline constexpr const char* kMountCommands = "Mounts";
inline constexpr const char* kDataCommands = "Data sets";
inline constexpr const char* kTierCommands = "Tiers";
inline constexpr const char* kHelpCommands = "Finding out";

// Headings of lists of options.
inline constexpr const char* kTierGroup = "Tiers (sizes: 512M, 16G, 1.5T)";
inline constexpr const char* kOrderGroup = "Order";
inline constexpr const char* kSpecialGroup = "Special needs";

// What --json is in every command that has it.
[[nodiscard]] Option json_flag(bool& json);
void add_listing_options(Command& command, CacheArguments& cache);
void add_tier_options(Command& command, CacheArguments& cache);
// How a bucket is reached. There is none for keys, which `ps` would show.
void add_bucket_options(Command& command, CacheArguments& cache);
void add_ram_size(Command& command, CacheArguments& cache);
void add_mount_point(Command& command, std::filesystem::path& mount_point);
void add_engine_option(Command& command, CacheArguments& cache);
// Samples are the records of packs. Its help names every format that is known.
void add_records_option(Command& command, std::string& records);

}  // namespace headrace::cli
