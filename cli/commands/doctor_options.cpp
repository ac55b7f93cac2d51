// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/doctor.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_doctor_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<DoctorArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kHelpCommands, "doctor", "Show what this machine offers and what limits it"},
                  run_doctor, arguments);
  command.add_option("TARGET", arguments->target,
                     "A source or a mount: its file systems or its bucket are looked at, too");
  add_bucket_options(command, arguments->cache);
  command.add_option("--tier", arguments->tiers, "A folder that is to become a tier")
      ->type_name("PATH")
      ->allow_extra_args(false);
  command.add_flag("--json", arguments->json, "Print one JSON object");
  command.footer(
      "Exit status: 1 if something is missing, so that something does not work.\n\n"
      "Example:\n  headrace doctor /data/train --tier /nvme");
}

}  // namespace headrace::cli
