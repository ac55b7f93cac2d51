// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/diagnose.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_diagnose_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<DiagnoseArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kHelpCommands, "diagnose", "Find out whether a training waits for its data, and why"},
                  run_diagnose, arguments);
  command.add_option("TARGET", arguments->target, "A source folder, or a mount that a training reads")->required();
  command.add_option("COMMAND", arguments->command, "After --: a training to run and watch meanwhile");
  add_number(command, "--seconds", arguments->seconds, "How long to look")->type_name("N")->capture_default_str();
  command.add_flag("--json", arguments->json, "Print one JSON object");
  add_listing_options(command, arguments->cache);
  add_tier_options(command, arguments->cache);
  command.footer(
      "Examples:\n"
      "  headrace diagnose /data/train\n"
      "  headrace diagnose /data/train --ssd /nvme/headrace:200G\n"
      "  headrace diagnose /mnt/train --seconds 30 -- python train.py");
}

}  // namespace headrace::cli
