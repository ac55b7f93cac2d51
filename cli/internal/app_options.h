// SPDX-License-Identifier: Apache-2.0
// How commands are added to the command line, and the options that several of them share.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "headrace/cli/commands.h"

namespace headrace::cli {

// What the chosen command will do; set by its callback once everything is parsed.
using Selected = std::function<io::Status()>;

// Adds a subcommand whose arguments live as long as the app.
template <typename Arguments>
CLI::App& add_command(CLI::App& app, Selected& selected, const char* name, const char* description,
                      io::Status (*run)(const Arguments&), std::shared_ptr<Arguments>& arguments) {
  arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(name, description);
  command->callback([&selected, run, arguments] { selected = [run, arguments] { return run(*arguments); }; });
  return *command;
}

inline constexpr const char* kTierGroup = "Tiers (sizes: 512M, 16G, 1.5T)";
inline constexpr const char* kOrderGroup = "Order";
inline constexpr const char* kSpecialGroup = "Special needs";

void add_listing_options(CLI::App& command, CacheArguments& cache);
void add_tier_options(CLI::App& command, CacheArguments& cache);
void add_ram_size(CLI::App& command, CacheArguments& cache);
void add_engine_option(CLI::App& command, CacheArguments& cache);
void add_order_option(CLI::App& command, std::string& order, const char* description);

void add_mount_commands(CLI::App& app, Selected& selected);  // mount, unmount, stat, warm, read
void add_data_commands(CLI::App& app, Selected& selected);   // order, synth

}  // namespace headrace::cli
