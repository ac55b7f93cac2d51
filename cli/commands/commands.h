// SPDX-License-Identifier: Apache-2.0
// Adds the commands to the command line, each with its options and help. X.cpp has all of the command X: its arguments,
// what it does, and at its end its options.
#pragma once

#include "headrace/cli/options/command.h"

namespace headrace::cli {

void add_cache_command(Command& program);
void add_completion_command(Command& program);
void add_config_command(Command& program);
void add_diagnose_command(Command& program);
void add_evict_command(Command& program);
void add_ls_command(Command& program);
void add_manual_command(Command& program);
void add_metrics_command(Command& program);
void add_peers_command(Command& program);
void add_pin_command(Command& program);
void add_read_command(Command& program);
void add_refresh_command(Command& program);
void add_report_command(Command& program);
void add_run_command(Command& program);
void add_set_command(Command& program);
void add_simulate_command(Command& program);
void add_stat_command(Command& program);
void add_synth_command(Command& program);
void add_tier_command(Command& program);
void add_unmount_command(Command& program);
void add_upgrade_command(Command& program);
void add_verify_command(Command& program);

}  // namespace headrace::cli
