// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "headrace/cli/commands/warm.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

namespace {

// Which samples the tiers are to hold.
void add_wanted_options(Command& command, WarmArguments& arguments) {
  command.add({.name = "--order",
               .target = &arguments.order,
               .value = "SPEC",
               .group = kOrderGroup,
               .help = "Warm in this order; default: catalog order"});
  add_records_option(command, arguments.records);
  command.add({.name = "--seed",
               .target = &arguments.seed,
               .value = "N",
               .group = kOrderGroup,
               .help = "Adds seed=N to the order; without --order it is torch-distributed"});
  command.add({.name = "--epoch",
               .target = &arguments.epoch,
               .value = "E",
               .group = kOrderGroup,
               .help = "The first epoch of that order"});
  command.add({.name = "--epochs",
               .target = &arguments.epochs,
               .value = "N",
               .group = kOrderGroup,
               .help = "How many epochs the tiers are to serve",
               .shows_default = true});
  command.add({.name = "--list",
               .target = &arguments.list,
               .value = "FILE",
               .group = kOrderGroup,
               .help = "Warm what this file names (a path or index per line); -: standard input",
               .excludes = {"--epochs"}});
}

}  // namespace

void add_warm_command(Command& program) {
  std::shared_ptr<WarmArguments> arguments;
  Command& command =
      add_command(program, {kMountCommands, "warm", "Fill the tiers before a training starts"}, run_warm, arguments);
  command.add({.name = "TARGET",
               .target = &arguments->target,
               .help = "A mount (its daemon does the work), or a source",
               .required = true});
  command.add({.name = "--ram",
               .target = &arguments->ram,
               .group = kTierGroup,
               .help = "Of a mount: also push samples until its memory budget is full"});
  add_tier_options(command, arguments->cache);
  add_wanted_options(command, *arguments);
  command.add({.name = "--mine",
               .target = &arguments->mine,
               .group = kTierGroup,
               .help = "What this node is to hold for all that share, and nothing else: of a mount with "
                       "--peers, or of a source with --peers and --share"});
  command.add({.name = "--index",
               .target = &arguments->index,
               .help = "Of a source: also find where crops can begin within each JPEG; needs no tier"});
  command.add({.name = "--dry-run",
               .target = &arguments->dry_run,
               .help = "Only say what would be fetched, and predict the hit ratio",
               .excludes = {"--index", "--mine"}});
  command.add({.name = "--check",
               .target = &arguments->check,
               .help = "Only say whether the disk tiers hold all of it; exit status 1 if something is missing",
               .excludes = {"--dry-run", "--mine", "--index"}});
  command.add(json_flag(arguments->json));
  command.add({.name = "--rate-limit",
               .target = &arguments->rate_limit,
               .value = "SIZE",
               .group = kSpecialGroup,
               .help = "Read at most this much of the source per second"});
  add_listing_options(command, arguments->cache);
  add_bucket_options(command, arguments->cache);
  add_engine_option(command, arguments->cache);
  command.footer =
      "Examples:\n"
      "  headrace warm /data/train --ssd /nvme/headrace:200G\n"
      "  headrace warm /mnt/train --ram\n"
      "  headrace warm /mnt/train --order torch-distributed:replicas=8 --seed 0 \\\n"
      "      --epochs 3 --dry-run\n"
      "  headrace warm /data/train --index\n"
      "  headrace warm /mnt/train --mine\n"
      "  headrace warm /data/lmdb --records auto --list numbers.txt --ssd /nvme/h:200G\n"
      "  grep /cat/ samples.txt | headrace warm /mnt/train --list -\n\n"
      "Tiers hold packs by the file: with --records, those that have a record which the\n"
      "list or the order names.\n\n"
      "What is held already is not fetched again: a warm that was stopped goes on when\n"
      "you call it again. With --index, the first epoch of headrace's loaders (Python,\n"
      "C, C++) decodes crops as fast as the later ones. Indexes are found by the\n"
      "content of the files, from whatever place these are read.";
}

}  // namespace headrace::cli
