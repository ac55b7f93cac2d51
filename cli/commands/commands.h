// SPDX-License-Identifier: Apache-2.0
// Adds the commands to the command line, each with its options and help. X.cpp has all of the command X: its arguments,
// what it does, and at its end its options.
#pragma once

#include "headrace/cli/options/command.h"

namespace headrace::cli {

void add_cache_command(CLI::App& app, Selected& selected);
void add_completion_command(CLI::App& app, Selected& selected);
void add_config_command(CLI::App& app, Selected& selected);
void add_diagnose_command(CLI::App& app, Selected& selected);
void add_evict_command(CLI::App& app, Selected& selected);
void add_ls_command(CLI::App& app, Selected& selected);
void add_manual_command(CLI::App& app, Selected& selected);
void add_metrics_command(CLI::App& app, Selected& selected);
void add_peers_command(CLI::App& app, Selected& selected);
void add_pin_command(CLI::App& app, Selected& selected);
void add_read_command(CLI::App& app, Selected& selected);
void add_refresh_command(CLI::App& app, Selected& selected);
void add_report_command(CLI::App& app, Selected& selected);
void add_set_command(CLI::App& app, Selected& selected);
void add_simulate_command(CLI::App& app, Selected& selected);
void add_stat_command(CLI::App& app, Selected& selected);
void add_synth_command(CLI::App& app, Selected& selected);
void add_tier_command(CLI::App& app, Selected& selected);
void add_unmount_command(CLI::App& app, Selected& selected);
void add_upgrade_command(CLI::App& app, Selected& selected);
void add_verify_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
