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
  CLI::App scratch;
  MountArguments mount;
  add_mount_options(scratch, mount);
  try {
    apply_config_file(scratch, arguments.file);
  } catch (const CLI::ParseError& failure) {
    return io::make_error(io::ErrorCode::kInvalidArgument, failure.what());
  }
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

void add_config_command(CLI::App& app, Selected& selected) {
  CLI::App* config = app.add_subcommand("config", "Check a config file of mount")->group(kHelpCommands);
  config->require_subcommand(1);
  std::shared_ptr<ConfigCheckArguments> arguments;
  CLI::App& check = add_command(*config, selected, {"Commands", "check", "Say whether mount would take a config file"},
                                run_config_check, arguments);
  check.add_option("FILE", arguments->file, "The config file")->required();
  check.footer("Example:\n  headrace config check /etc/headrace/train.toml");
  config->footer(
      "A config file is TOML, the options of mount without their dashes:\n"
      "  source = \"/data/train\"\n"
      "  mountpoint = \"/mnt/train\"\n"
      "  ram = \"16G\"\n"
      "  ssd = [\"/nvme/headrace:200G\"]\n"
      "  order = \"torch-distributed:seed=0\"");
}

}  // namespace headrace::cli
