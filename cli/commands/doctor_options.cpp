// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/doctor.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_doctor_command(Command& program) {
  std::shared_ptr<DoctorArguments> arguments;
  Command& command = add_command(program, {kHelpCommands, "doctor", "Show what this machine offers and what limits it"},
                                 run_doctor, arguments);
  command.add({.name = "TARGET",
               .target = &arguments->target,
               .help = "A source or a mount: its file systems or its bucket are looked at, too"});
  add_bucket_options(command, arguments->cache);
  command.add(
      {.name = "--tier", .target = &arguments->tiers, .value = "PATH", .help = "A folder that is to become a tier"});
  command.add(json_flag(arguments->json));
  command.footer =
      "Exit status: 1 if something is missing, so that something does not work.\n\n"
      "Example:\n  headrace doctor /data/train --tier /nvme";
}

}  // namespace headrace::cli
