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

// `file` outlives the parsing, because it is read when all options are known.
void add_config_option(CLI::App& command, const std::shared_ptr<std::string>& file) {
  command.add_option("--config", *file, "Read options from this TOML file; see headrace config --help")
      ->type_name("FILE")
      ->group("Mount");
}

// Each option that was given, wherever it was given.
std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    const bool is_word = !option->get_positional() && !option->get_lnames().empty() && option->count() > 0;
    if (!is_word || option->get_lnames().front() == "config") continue;
    const std::string name = "--" + option->get_lnames().front();
    for (const std::string& value : option->results())
      words.push_back(fmt::format("{}={}", name, value));  // a flag may be false
  }
  return words;
}

}  // namespace

io::Result<std::filesystem::path> configured_mount_point(const std::string& file) {
  CLI::App scratch;
  MountArguments arguments;
  add_mount_options(scratch, arguments);
  try {
    apply_config_file(scratch, file);
  } catch (const CLI::ParseError& failure) {
    return io::make_error(io::ErrorCode::kInvalidArgument, failure.what());
  }
  if (!arguments.mount_point.empty()) return arguments.mount_point;
  return io::make_error(io::ErrorCode::kInvalidArgument, file + " names no mountpoint");
}

void add_mount_options(CLI::App& command, MountArguments& arguments) {
  command.add_option("SOURCE", arguments.source, "The folder or bucket that holds the data set");
  command.add_option("MOUNTPOINT", arguments.mount_point,
                     "An empty folder, or SOURCE itself: the mount then covers it");
  add_ram_size(command, arguments.cache);
  add_tier_options(command, arguments.cache);
  command
      .add_option(
          "--source-rate", arguments.source_rate,
          "Read at most this much of the source per second ahead of the loader; what it waits for is never held up")
      ->type_name("SIZE")
      ->group(kSpecialGroup);
  command
      .add_option("--order", arguments.orders,
                  "The order in which the loader reads, or FOLDER=SPEC once for each folder that is read, such as "
                  "train=torch-distributed:seed=0; auto finds it out from the opens; see headrace order --help")
      ->type_name("SPEC")
      ->allow_extra_args(false)
      ->default_str("auto")
      ->group(kOrderGroup);
  add_records_option(command, arguments.records);
  add_number(command, "--epoch", arguments.first_epoch, "The epoch that comes first (resuming a training)")
      ->type_name("E")
      ->group(kOrderGroup);
  add_listing_options(command, arguments.cache);
  add_bucket_options(command, arguments.cache);
  command.add_flag("--foreground,-f", arguments.foreground, "Stay in the foreground, log to stderr")->group("Mount");
  command.add_flag("--allow-other", arguments.allow_other, "Other users may read too, as file permissions allow")
      ->group("Mount");
  command
      .add_flag("--overlay", arguments.overlay, "Put a read-only overlay on top: faster for Python < 3.14; needs root")
      ->group("Mount");
  command
      .add_option(
          "--scratch", arguments.scratch,
          "Programs may write below MOUNTPOINT: an overlay keeps what they write in this folder, and the source "
          "stays as it is; needs root")
      ->type_name("DIR")
      ->group("Mount");
  add_number(command, "--revalidate", arguments.revalidate_seconds,
             "Look for changes of the source this often; without it only at the start and on headrace refresh")
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

void add_mount_command(CLI::App& app, Selected& selected) {
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
    arguments->words = words_of(command);
    selected = [arguments] { return run_mount(*arguments); };
  });
  command.footer(
      "Each option can also be set in the environment: HEADRACE_RAM=16G, and so on.\n\n"
      "Examples:\n"
      "  headrace mount /data/imagenet/train /mnt/train --ram 16G\n"
      "  headrace mount /nfs/train /nfs/train --ssd /nvme/headrace:200G \\\n"
      "      --order torch-distributed:seed=0,replicas=8,rank=3\n"
      "  headrace mount s3://bucket/train /mnt/train --ssd /nvme/headrace:200G\n"
      "  headrace mount /nfs/lmdb /mnt/lmdb --records auto --order torch-random:seed=42");
}

void add_take_over_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<TakeOverArguments> arguments;
  CLI::App& command = add_command(app, selected, {"", "take-over", "Go on with the mount of the program before"},
                                  run_take_over, arguments);
  command.add_option("DESCRIPTOR", arguments->descriptor, "Where the handover is read")->required();
  add_mount_options(command, arguments->mount);
  command.callback([&command, &selected, arguments] {
    arguments->mount.words = words_of(command);
    selected = [arguments] { return run_take_over(*arguments); };
  });
}

}  // namespace headrace::cli
