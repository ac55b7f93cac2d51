// SPDX-License-Identifier: Apache-2.0
// headrace config check: says whether mount would take a config file.
#include <fmt/core.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/options/config_file.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/show/terminal.h"

namespace headrace::cli {
namespace {

struct ConfigCheckArguments {
  std::string file;
};

io::Status run_config_check(const ConfigCheckArguments& arguments) {
  Command scratch("", "mount", "");
  MountArguments mount;
  add_mount_options(scratch, mount);
  HEADRACE_TRY_DO(apply_config_file(scratch, arguments.file));
  io::Status checked = check_mount(mount);
  if (checked) {
    print_line(stdout, fmt::format("{}: good, mounts {} at {}", arguments.file, mount.source.string(),
                                   mount.mount_point.string()));
    return {};
  }
  checked.error().context.insert(0, arguments.file + ": ");
  return checked;
}

}  // namespace

void add_config_command(Command& program) {
  Command& config = add_command(program, {kHelpCommands, "config", "Check a config file of mount"});
  config.needs_command = true;
  std::shared_ptr<ConfigCheckArguments> arguments;
  Command& check = add_command(config, {"Commands", "check", "Say whether mount would take a config file"},
                               run_config_check, arguments);
  check.add({.name = "FILE", .target = &arguments->file, .help = "The config file", .required = true});
  check.footer = "Example:\n  headrace config check /etc/headrace/train.toml";
  config.footer =
      "A config file is TOML, the options of mount without their dashes:\n"
      "  source = \"/data/train\"\n"
      "  mountpoint = \"/mnt/train\"\n"
      "  ram = \"16G\"\n"
      "  ssd = [\"/nvme/headrace:200G\"]\n"
      "  order = \"torch-distributed:seed=0\"";
}

}  // namespace headrace::cli
