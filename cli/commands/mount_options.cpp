// SPDX-License-Identifier: Apache-2.0
// Options of the commands around a mount.
#include "headrace/cli/options/options.h"

namespace headrace::cli {
namespace {

// `file` outlives the parsing: it is read once all options are known.
void add_config_option(CLI::App& command, const std::shared_ptr<std::string>& file) {
  command.add_option("--config", *file, "Read options from this TOML file; see headrace config --help")
      ->type_name("FILE")
      ->group("Mount");
}

void add_mount(CLI::App& app, Selected& selected) {
  std::shared_ptr<MountArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "mount", "Show a data set through a mount that reads ahead of the loader"},
      run_mount, arguments);
  add_mount_options(command, *arguments);
  const auto config = std::make_shared<std::string>();
  add_config_option(command, config);
  add_environment_names(command);
  command.callback([&command, &selected, arguments, config] {
    if (!config->empty()) apply_config_file(command, *config);
    selected = [arguments] { return run_mount(*arguments); };
  });
  command.footer(
      "Each option can also be set in the environment: HEADRACE_RAM=16G, and so on.\n\n"
      "Examples:\n"
      "  headrace mount /data/imagenet/train /mnt/train --ram 16G\n"
      "  headrace mount /nfs/train /nfs/train --ssd /nvme/headrace:200G \\\n"
      "      --order torch-distributed:seed=0,replicas=8,rank=3");
}

void add_unmount(CLI::App& app, Selected& selected) {
  std::shared_ptr<UnmountArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "unmount", "End a mount, also one whose daemon died; good if there is none"},
      run_unmount, arguments);
  command.add_option("MOUNTPOINT", arguments->mount_point, "Where it is mounted")->required();
  command.alias("umount");
  command.footer("Example:\n  headrace unmount /mnt/train");
}

void add_refresh(CLI::App& app, Selected& selected) {
  std::shared_ptr<RefreshArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "refresh", "Look for changes of a mount's source now"}, run_refresh, arguments);
  command.add_option("MOUNTPOINT", arguments->mount_point, "Where it is mounted")->required();
  command.footer("Example:\n  headrace refresh /mnt/train");
}

void add_stat(CLI::App& app, Selected& selected) {
  std::shared_ptr<StatArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "stat", "What a mount holds, has served and is doing"}, run_stat, arguments);
  command.add_option("MOUNTPOINT", arguments->mount_point, "Where it is mounted")->required();
  CLI::Option* json = command.add_flag("--json", arguments->json, "Print one JSON object");
  command.add_flag("--watch,-w", arguments->watch, "Keep looking, once a second, until Ctrl-C")->excludes(json);
  command.footer("Example:\n  headrace stat /mnt/train --watch");
}

void add_warm(CLI::App& app, Selected& selected) {
  std::shared_ptr<WarmArguments> arguments;
  CLI::App& command = add_command(app, selected, {kMountCommands, "warm", "Fill the tiers before a training starts"},
                                  run_warm, arguments);
  command.add_option("TARGET", arguments->target, "A mount (its daemon does the work), or a source folder")->required();
  command.add_flag("--ram", arguments->ram, "A mount: also push samples until its memory budget is full")
      ->group(kTierGroup);
  add_tier_options(command, arguments->cache);
  add_order_option(command, arguments->order, "Warm in this order; default: catalog order");
  add_number(command, "--seed", arguments->seed, "Short for seed=N in the order; torch-distributed if there is none")
      ->type_name("N")
      ->group(kOrderGroup);
  add_number(command, "--epoch", arguments->epoch, "The epoch of that order that comes first")
      ->type_name("E")
      ->group(kOrderGroup);
  CLI::Option* epochs = add_number(command, "--epochs", arguments->epochs, "How many epochs are to be served")
                            ->type_name("N")
                            ->capture_default_str()
                            ->group(kOrderGroup);
  command
      .add_option("--list", arguments->list, "Warm what this file names (a path or index per line); -: standard input")
      ->type_name("FILE")
      ->excludes(epochs)
      ->group(kOrderGroup);
  CLI::Option* dry_run = command.add_flag("--dry-run", arguments->dry_run,
                                          "Only say what would be fetched, and the hit ratio that it predicts");
  command
      .add_flag("--check", arguments->check,
                "Only say whether the disk tiers hold all of it; exit status 1 if something is missing")
      ->excludes(dry_run);
  command.add_option("--rate-limit", arguments->rate_limit, "Read at most this much of the source per second")
      ->type_name("SIZE")
      ->group(kSpecialGroup);
  add_listing_options(command, arguments->cache);
  add_engine_option(command, arguments->cache);
  command.footer(
      "Examples:\n"
      "  headrace warm /data/train --ssd /nvme/headrace:200G\n"
      "  headrace warm /mnt/train --ram\n"
      "  headrace warm /mnt/train --order torch-distributed:replicas=8 --seed 0 \\\n"
      "      --epochs 3 --dry-run\n"
      "  grep /cat/ samples.txt | headrace warm /mnt/train --list -\n\n"
      "What is held already is not fetched again: stop it, call it again, it goes on.");
}

}  // namespace

void add_mount_options(CLI::App& command, MountArguments& arguments) {
  command.add_option("SOURCE", arguments.source, "The folder that holds the data set");
  command.add_option("MOUNTPOINT", arguments.mount_point,
                     "An empty folder, or SOURCE itself: the mount then covers it");
  add_ram_size(command, arguments.cache);
  add_tier_options(command, arguments.cache);
  add_order_option(command, arguments.order,
                   "The order in which the loader reads, or auto: found out from its opens; see headrace order --help")
      .capture_default_str();
  add_number(command, "--epoch", arguments.first_epoch, "The epoch that comes first (resuming a training)")
      ->type_name("E")
      ->group(kOrderGroup);
  add_listing_options(command, arguments.cache);
  command.add_flag("--foreground,-f", arguments.foreground, "Stay in the foreground, log to stderr")->group("Mount");
  command.add_flag("--allow-other", arguments.allow_other, "Other users may read too, as file permissions allow")
      ->group("Mount");
  command
      .add_flag("--overlay", arguments.overlay, "Put a read-only overlay on top: faster for Python < 3.14; needs root")
      ->group("Mount");
  add_number(command, "--revalidate", arguments.revalidate_seconds,
             "Look for changes of the source this often; without it: when mounted, and on headrace refresh")
      ->type_name("SECONDS")
      ->group("Mount");
  command.add_option("--log-level", arguments.log_level, "What is logged")
      ->type_name("debug|info|warning|error")
      ->capture_default_str()
      ->group("Mount");
  command
      .add_option("--metrics", arguments.metrics, "Serve a Prometheus page there; 127.0.0.1 unless an address is given")
      ->type_name("[ADDRESS:]PORT")
      ->group("Mount");
  add_engine_option(command, arguments.cache);
}

void add_mount_commands(CLI::App& app, Selected& selected) {
  add_mount(app, selected);
  add_unmount(app, selected);
  add_refresh(app, selected);
  add_stat(app, selected);
  add_warm(app, selected);
}

}  // namespace headrace::cli
