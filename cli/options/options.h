// SPDX-License-Identifier: Apache-2.0
// Adds commands to the command line, and holds the options that several commands share. It includes CLI11.
#pragma once

#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>

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
void add_verbose_flag(CLI::App& command);

// Adds a subcommand. Its arguments live as long as the app.
template <typename Arguments>
CLI::App& add_command(CLI::App& app, Selected& selected, const CommandText& text, io::Status (*run)(const Arguments&),
                      std::shared_ptr<Arguments>& arguments) {
  arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(text.name, text.description);
  command->group(text.group);
  command->footer("");  // not the one of the whole, which a command would inherit
  add_verbose_flag(*command);
  command->callback([&selected, command, run, arguments] {
    if (!command->get_subcommands().empty()) return;  // a command below this one was chosen
    selected = [run, arguments] { return run(*arguments); };
  });
  return *command;
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

// Takes a whole number from 0 on. CLI11 alone would take "-1" for 2^64 - 1 and "010" for 8.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const char* name, Number& number, const char* description) {
  static_assert(std::is_unsigned_v<Number>);
  const auto check = [](const std::string& text) {
    Number parsed = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    const bool good = failure == std::errc{} && end == text.data() + text.size() && (text[0] != '0' || parsed == 0);
    return good ? std::string() : "'" + text + "' is not a whole number from 0 on";
  };
  return command.add_option(name, number, description)->check(check);
}

void add_listing_options(CLI::App& command, CacheArguments& cache);
void add_tier_options(CLI::App& command, CacheArguments& cache);
// How a bucket is reached. There is none for keys, which `ps` would show.
void add_bucket_options(CLI::App& command, CacheArguments& cache);
void add_ram_size(CLI::App& command, CacheArguments& cache);
void add_mount_point(CLI::App& command, std::filesystem::path& mount_point);
void add_engine_option(CLI::App& command, CacheArguments& cache);
CLI::Option& add_order_option(CLI::App& command, std::string& order, const char* description);
// Samples are the records of packs. Its help names every format that is known.
CLI::Option& add_records_option(CLI::App& command, std::string& records);

}  // namespace headrace::cli
