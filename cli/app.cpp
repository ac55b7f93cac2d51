// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/app.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/commands/doctor.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/commands/order.h"
#include "headrace/cli/commands/warm.h"
#include "headrace/cli/options/command.h"
#include "headrace/cli/options/help_formatter.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/options/usage_error.h"
#include "headrace/cli/setup/child_command.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/cli/version.h"

namespace headrace::cli {
namespace {

void add_commands(CLI::App& app, Selected& selected) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help");
  add_verbose_flag(app);
  app.set_version_flag("--version", std::string("headrace ") + kVersion, "Print the version");
  app.footer(
      "headrace COMMAND --help tells more about a command. Start with headrace doctor.\n"
      "Exit status: 0 good, 1 failed, 2 usage, 128 + N stopped by signal N.");
  add_mount_command(app, selected);
  add_take_over_command(app, selected);
  add_unmount_command(app, selected);
  add_refresh_command(app, selected);
  add_set_command(app, selected);
  add_pin_command(app, selected);
  add_evict_command(app, selected);
  add_upgrade_command(app, selected);
  add_ls_command(app, selected);
  add_stat_command(app, selected);
  add_metrics_command(app, selected);
  add_peers_command(app, selected);
  add_warm_command(app, selected);
  add_read_command(app, selected);
  add_order_command(app, selected);
  add_synth_command(app, selected);
  add_cache_command(app, selected);
  add_tier_command(app, selected);
  add_verify_command(app, selected);
  add_doctor_command(app, selected);
  add_diagnose_command(app, selected);
  add_report_command(app, selected);
  add_simulate_command(app, selected);
  add_config_command(app, selected);
  add_completion_command(app, selected);
  add_manual_command(app, selected);
}

int report_parse_result(const CLI::App& app, const CLI::ParseError& result) {
  if (result.get_exit_code() == 0) return app.exit(result);  // --help and --version
  print_line(stderr, "headrace: " + explain_usage_error(app, result));
  return kExitUsage;
}

int report(const io::Status& status) {
  if (status) return kExitGood;
  const io::Error& error = status.error();
  const bool usage = error.code == io::ErrorCode::kInvalidArgument && error.os_errno == 0;
  // Errors of the user's making are whole sentences; "invalid" behind them would say nothing.
  print_line(stderr, "headrace: " + (error.os_errno == 0 && !error.context.empty() ? error.context : error.message()));
  if (error.code == io::ErrorCode::kCancelled && last_stop_signal() != 0) return kExitSignal + last_stop_signal();
  if (const int of_child = failed_child_status(); of_child != 0) return of_child;
  return usage ? kExitUsage : kExitFailed;
}

// What is printed is what was asked for, so a full disk must not pass for success. Who closes a pipe has read enough.
io::Status run(const Selected& selected) {
  try {
    HEADRACE_TRY_DO(selected());
  } catch (const std::system_error& failure) {  // fmt::print() throws where it cannot write
    if (failure.code().value() == EPIPE) return {};
    return io::make_error(io::ErrorCode::kSystem, failure.what());
  }
  if (std::fflush(stdout) == 0 || errno == EPIPE) return {};
  return io::system_error(errno, "write to standard output");
}

// In CLI11's order, the last one first. "help" and "version" are words that people try.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "version") words.front() = "--version";
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::reverse(words.begin(), words.end());
  return words;
}

}  // namespace

int run_app(int argc, char** argv) {
  CLI::App app("headrace brings training samples from slow storage before they are needed.", "headrace");
  Selected selected;
  add_commands(app, selected);
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& result) {
    return report_parse_result(app, result);
  }
  return report(run(selected));
}

}  // namespace headrace::cli
