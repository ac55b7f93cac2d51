// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "headrace/cli/commands/mount.h"
#include "headrace/cli/options/config_file.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {
namespace {

constexpr const char* kMountGroup = "Mount";

// What the mount and its daemon are like, whatever they serve.
void add_process_options(Command& command, MountArguments& arguments) {
  command.add({.name = "--foreground",
               .letter = 'f',
               .target = &arguments.foreground,
               .group = kMountGroup,
               .help = "Stay in the foreground, log to stderr"});
  command.add({.name = "--allow-other",
               .target = &arguments.allow_other,
               .group = kMountGroup,
               .help = "Other users may read too, as file permissions allow"});
  command.add({.name = "--overlay",
               .target = &arguments.overlay,
               .group = kMountGroup,
               .help = "Put a read-only overlay on top: faster for Python < 3.14; needs root"});
  command.add(
      {.name = "--scratch",
       .target = &arguments.scratch,
       .value = "DIR",
       .group = kMountGroup,
       .help = "Programs may write below MOUNTPOINT: an overlay keeps what they write in this folder, and the source "
               "stays as it is; needs root"});
  command.add(
      {.name = "--revalidate",
       .target = &arguments.revalidate_seconds,
       .value = "SECONDS",
       .group = kMountGroup,
       .help = "Look for changes of the source this often; without it only at the start and on headrace refresh"});
  command.add({.name = "--log-level",
               .target = &arguments.log_level,
               .value = "debug|info|warning|error",
               .group = kMountGroup,
               .help = "What is logged",
               .shows_default = true});
  command.add({.name = "--metrics",
               .target = &arguments.metrics,
               .value = "[ADDRESS:]PORT",
               .group = kMountGroup,
               .help = "Serve a Prometheus page there; 127.0.0.1 unless an address is given"});
}

}  // namespace

io::Result<std::filesystem::path> configured_mount_point(const std::string& file) {
  Command scratch("", "mount", "");
  MountArguments arguments;
  add_mount_options(scratch, arguments);
  HEADRACE_TRY_DO(apply_config_file(scratch, file));
  if (!arguments.mount_point.empty()) return arguments.mount_point;
  return io::make_error(io::ErrorCode::kInvalidArgument, file + " names no mountpoint");
}

std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> words;
  for (const Option& option : command.options) {
    if (option.long_name().empty() || option.name == "--config") continue;
    for (const std::string& value : option.given) {  // a flag may be false
      words.push_back(fmt::format("{}={}", option.name, value));
    }
  }
  return words;
}

void add_served_options(Command& command, MountArguments& arguments) {
  add_ram_size(command, arguments.cache);
  add_tier_options(command, arguments.cache);
  command.add(
      {.name = "--source-rate",
       .target = &arguments.source_rate,
       .value = "SIZE",
       .group = kSpecialGroup,
       .help =
           "Read at most this much of the source per second ahead of the loader; what it waits for is never held up"});
  command.add({.name = "--order",
               .target = &arguments.orders,
               .value = "SPEC",
               .group = kOrderGroup,
               .help = "The order in which the loader reads, or FOLDER=SPEC once for each folder that is read, such as "
                       "train=torch-distributed:seed=0; auto finds it out from the opens; see headrace order --help",
               .shows_default = true});
  add_records_option(command, arguments.records);
  command.add({.name = "--epoch",
               .target = &arguments.first_epoch,
               .value = "E",
               .group = kOrderGroup,
               .help = "The epoch that comes first (resuming a training)"});
  add_listing_options(command, arguments.cache);
  add_bucket_options(command, arguments.cache);
}

void add_mount_options(Command& command, MountArguments& arguments) {
  command.add({.name = "SOURCE", .target = &arguments.source, .help = "The folder or bucket that holds the data set"});
  command.add({.name = "MOUNTPOINT",
               .target = &arguments.mount_point,
               .help = "An empty folder, or SOURCE itself: the mount then covers it"});
  add_served_options(command, arguments);
  add_process_options(command, arguments);
  add_engine_option(command, arguments.cache);
}

void add_mount_command(Command& program) {
  std::shared_ptr<MountArguments> arguments;
  Command& command =
      add_command(program, {kMountCommands, "mount", "Show a data set through a mount that reads ahead of the loader"},
                  run_mount, arguments);
  add_mount_options(command, *arguments);
  const auto config = std::make_shared<std::string>();
  command.add({.name = "--config",
               .target = config.get(),
               .value = "FILE",
               .group = kMountGroup,
               .help = "Read options from this TOML file; see headrace config --help"});
  add_environment_names(command);
  command.settle = [&command, arguments, config]() -> io::Status {
    if (!config->empty()) HEADRACE_TRY_DO(apply_config_file(command, *config));
    arguments->words = words_of(command);
    return {};
  };
  command.footer =
      "Each option can also be set in the environment: HEADRACE_RAM=16G, and so on.\n\n"
      "Examples:\n"
      "  headrace mount /data/imagenet/train /mnt/train --ram 16G\n"
      "  headrace mount /nfs/train /nfs/train --ssd /nvme/headrace:200G \\\n"
      "      --order torch-distributed:seed=0,replicas=8,rank=3\n"
      "  headrace mount s3://bucket/train /mnt/train --ssd /nvme/headrace:200G\n"
      "  headrace mount /nfs/lmdb /mnt/lmdb --records auto --order torch-random:seed=42";
}

void add_take_over_command(Command& program) {
  std::shared_ptr<TakeOverArguments> arguments;
  Command& command =
      add_command(program, {"", "take-over", "Go on with the mount of the program before"}, run_take_over, arguments);
  command.add(
      {.name = "DESCRIPTOR", .target = &arguments->descriptor, .help = "Where the handover is read", .required = true});
  add_mount_options(command, arguments->mount);
  command.settle = [&command, arguments]() -> io::Status {
    arguments->mount.words = words_of(command);
    return {};
  };
}

}  // namespace headrace::cli
