// SPDX-License-Identifier: Apache-2.0
// The command line as a whole. Only app*.cpp include CLI11: it takes long to compile.
#include "headrace/cli/app.h"

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "headrace/cli/internal/app_options.h"
#include "headrace/cli/internal/help_formatter.h"
#include "headrace/cli/version.h"

namespace headrace::cli {
namespace {

void add_commands(CLI::App& app, Selected& selected) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", std::string("headrace ") + kVersion, "Print the version");
  app.footer(
      "headrace COMMAND --help tells more about a command.\n"
      "Exit status: 0 good, 1 failed, 2 usage.");
  add_mount_commands(app, selected);
  add_data_commands(app, selected);
  add_tier_commands(app, selected);
  add_help_commands(app, selected);
}

int report_parse_result(const CLI::App& app, const CLI::ParseError& result) {
  if (result.get_exit_code() == 0) return app.exit(result);  // --help and --version
  const CLI::App* command = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  const std::string name = command == &app ? "headrace" : "headrace " + command->get_name();
  fmt::print(stderr, "headrace: {}; see {} --help\n", result.what(), name);
  return kExitUsage;
}

int report(const io::Status& status) {
  if (status) return kExitGood;
  const io::Error& error = status.error();
  const bool usage = error.code == io::ErrorCode::kInvalidArgument && error.os_errno == 0;
  // Errors of the user's making are whole sentences; "invalid" behind them would say nothing.
  fmt::print(stderr, "headrace: {}\n", error.os_errno == 0 && !error.context.empty() ? error.context : error.message());
  return usage ? kExitUsage : kExitFailed;
}

}  // namespace

int run_app(int argc, char** argv) {
  CLI::App app("headrace brings training samples from slow storage before they are needed.", "headrace");
  Selected selected;
  add_commands(app, selected);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& result) {
    return report_parse_result(app, result);
  }
  return report(selected());
}

}  // namespace headrace::cli
