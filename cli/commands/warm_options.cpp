// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/warm.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_warm_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<WarmArguments> arguments;
  CLI::App& command = add_command(app, selected, {kMountCommands, "warm", "Fill the tiers before a training starts"},
                                  run_warm, arguments);
  command.add_option("TARGET", arguments->target, "A mount (its daemon does the work), or a source")->required();
  command.add_flag("--ram", arguments->ram, "Of a mount: also push samples until its memory budget is full")
      ->group(kTierGroup);
  add_tier_options(command, arguments->cache);
  add_order_option(command, arguments->order, "Warm in this order; default: catalog order");
  add_records_option(command, arguments->records);
  add_number(command, "--seed", arguments->seed, "Adds seed=N to the order; without --order it is torch-distributed")
      ->type_name("N")
      ->group(kOrderGroup);
  add_number(command, "--epoch", arguments->epoch, "The first epoch of that order")->type_name("E")->group(kOrderGroup);
  CLI::Option* epochs = add_number(command, "--epochs", arguments->epochs, "How many epochs the tiers are to serve")
                            ->type_name("N")
                            ->capture_default_str()
                            ->group(kOrderGroup);
  command
      .add_option("--list", arguments->list, "Warm what this file names (a path or index per line); -: standard input")
      ->type_name("FILE")
      ->excludes(epochs)
      ->group(kOrderGroup);
  CLI::Option* mine = command
                          .add_flag("--mine", arguments->mine,
                                    "What this node is to hold for all that share, and nothing else: of a mount with "
                                    "--peers, or of a source with --peers and --share")
                          ->group(kTierGroup);
  CLI::Option* index = command.add_flag("--index", arguments->index,
                                        "Of a source: also find where crops can begin within each JPEG; needs no tier");
  CLI::Option* dry_run =
      command.add_flag("--dry-run", arguments->dry_run, "Only say what would be fetched, and predict the hit ratio")
          ->excludes(index)
          ->excludes(mine);
  command
      .add_flag("--check", arguments->check,
                "Only say whether the disk tiers hold all of it; exit status 1 if something is missing")
      ->excludes(dry_run)
      ->excludes(mine)
      ->excludes(index);
  command.add_flag("--json", arguments->json, "Print one JSON object");
  command.add_option("--rate-limit", arguments->rate_limit, "Read at most this much of the source per second")
      ->type_name("SIZE")
      ->group(kSpecialGroup);
  add_listing_options(command, arguments->cache);
  add_bucket_options(command, arguments->cache);
  add_engine_option(command, arguments->cache);
  command.footer(
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
      "content of the files, from whatever place these are read.");
}

}  // namespace headrace::cli
