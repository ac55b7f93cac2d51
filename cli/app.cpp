// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/app.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/commands/doctor.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/commands/order.h"
#include "headrace/cli/commands/warm.h"
#include "headrace/cli/options/command.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/options/parser.h"
#include "headrace/cli/setup/child_command.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/cli/version.h"

namespace headrace::cli {
namespace {

void add_commands(Command& program) {
  program.needs_command = true;
  add_verbose_flag(program);
  program.add(
      {.name = "--version", .target = VersionLine{std::string("headrace ") + kVersion}, .help = "Print the version"});
  program.footer =
      "headrace COMMAND --help tells more about a command. Start with headrace doctor.\n"
      "Exit status: 0 good, 1 failed, 2 usage, 128 + N stopped by signal N.";
  add_run_command(program);
  add_mount_command(program);
  add_take_over_command(program);
  add_unmount_command(program);
  add_refresh_command(program);
  add_set_command(program);
  add_pin_command(program);
  add_evict_command(program);
  add_upgrade_command(program);
  add_ls_command(program);
  add_stat_command(program);
  add_metrics_command(program);
  add_peers_command(program);
  add_warm_command(program);
  add_read_command(program);
  add_order_command(program);
  add_synth_command(program);
  add_cache_command(program);
  add_tier_command(program);
  add_verify_command(program);
  add_doctor_command(program);
  add_diagnose_command(program);
  add_report_command(program);
  add_simulate_command(program);
  add_config_command(program);
  add_completion_command(program);
  add_manual_command(program);
}

int report(const io::Status& status) {
  if (status) return failed_child_status();
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

// "help" and "version" are words that people try.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "version") words.front() = "--version";
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

}  // namespace

int run_app(int argc, char** argv) {
  Command program("", "headrace", "headrace brings training samples from slow storage before they are needed.");
  add_commands(program);
  const io::Result<Selected> selected = parse(program, words_of(argc, argv));
  return report(selected ? run(*selected) : tl::unexpected(selected.error()));
}

}  // namespace headrace::cli
