// SPDX-License-Identifier: Apache-2.0
// Options of the commands around a data set.
#include "headrace/cli/options/options.h"

namespace headrace::cli {
namespace {

void add_read(CLI::App& app, Selected& selected) {
  std::shared_ptr<ReadArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kDataCommands, "read", "Read epochs through the C++ reader and print the rates"},
                  run_read, arguments);
  command.add_option("SOURCE", arguments->source, "The folder that holds the data set")->required();
  add_ram_size(command, arguments->cache);
  add_tier_options(command, arguments->cache);
  add_order_option(command, arguments->order, "The order to read in; see headrace order --help").capture_default_str();
  add_number(command, "--epochs", arguments->epochs, "How many epochs")
      ->type_name("N")
      ->capture_default_str()
      ->group(kOrderGroup);
  add_number(command, "--epoch", arguments->first_epoch, "The first one")->type_name("E")->group(kOrderGroup);
  CLI::Option* decode = command.add_flag("--decode", arguments->decode, "Decode the images too")->group("Work");
  command.add_flag("--profile", arguments->profile, "Print which stage holds the others up")
      ->needs(decode)
      ->group("Work");
  command.add_flag("--checksum", arguments->checksum, "Print the sum of the samples' XXH3 (equal in every order)")
      ->group("Work");
  command.add_flag("--json", arguments->json, "Print one JSON object")->group("Work");
  add_listing_options(command, arguments->cache);
  add_engine_option(command, arguments->cache);
  command.footer("Example:\n  headrace read /data/train --order torch-distributed:seed=0 --epochs 2 --ram 8G");
}

void add_order_set(CLI::App& order, Selected& selected) {
  std::shared_ptr<OrderSetArguments> arguments;
  CLI::App& command = add_command(order, selected, {"Orders of mounts", "set", "Tell a mount what the loader reads"},
                                  run_order_set, arguments);
  command.add_option("MOUNTPOINT", arguments->mount_point, "Where it is mounted")->required();
  command.add_option("SPEC", arguments->order, "The order; headrace order --help lists them")->required();
  add_number(command, "--epoch", arguments->epoch, "The epoch that comes next")->type_name("E")->capture_default_str();
  command.footer("Example:\n  headrace order set /mnt/train torch-distributed:seed=1 --epoch 3");
}

void add_order_show(CLI::App& order, Selected& selected) {
  std::shared_ptr<OrderShowArguments> arguments;
  CLI::App& command =
      add_command(order, selected, {"Orders of mounts", "show", "The order of a mount and where its reader is"},
                  run_order_show, arguments);
  command.add_option("MOUNTPOINT", arguments->mount_point, "Where it is mounted")->required();
  command.footer("Example:\n  headrace order show /mnt/train");
}

void add_order(CLI::App& app, Selected& selected) {
  std::shared_ptr<OrderArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kDataCommands, "order", "Print the samples of an epoch in the order of a spec"},
                  run_order, arguments);
  command.add_option("SOURCE", arguments->source, "The folder that holds the data set");
  add_order_option(command, arguments->order, "The order, for instance torch-distributed:seed=0,replicas=8,rank=3");
  add_number(command, "--epoch", arguments->epoch, "Which epoch")
      ->type_name("E")
      ->capture_default_str()
      ->group(kOrderGroup);
  add_number(command, "-n", arguments->count, "Only the first K")->type_name("K")->group("Output");
  command.add_option("--print", arguments->print, "What is printed")
      ->type_name("path|index")
      ->capture_default_str()
      ->group("Output");
  command.add_flag("--list", arguments->list, "Print the kinds of orders with their parameters")->group("Output");
  add_listing_options(command, arguments->cache);
  add_order_set(command, selected);
  add_order_show(command, selected);
  command.footer(
      "Orders:\n"
      "  sequential, torch-distributed, torch-random, torch-subset, ra-sampler,\n"
      "  hf-trainer, lightning, detectron2, mmengine, numpy, python, dali, ffcv, dlio,\n"
      "  keras, file:PATH; parameters follow, for instance :seed=0,replicas=8,rank=3;\n"
      "  headrace order --list has them all\n\n"
      "Examples:\n"
      "  headrace order /data/train --order torch-distributed:seed=0 -n 5\n"
      "  headrace order set /mnt/train torch-distributed:seed=1 --epoch 3");
}

void add_synth(CLI::App& app, Selected& selected) {
  std::shared_ptr<SynthArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kDataCommands, "synth", "Make a data set of JPEG files to try things on"}, run_synth, arguments);
  command.add_option("DIR", arguments->directory, "Where to; must be empty or missing")->required();
  add_number(command, "--files", arguments->files, "How many files")->type_name("N")->capture_default_str();
  add_number(command, "--classes", arguments->classes, "How many class folders")->type_name("N")->capture_default_str();
  add_number(command, "--seed", arguments->seed, "Equal seeds give equal files")->type_name("N")->capture_default_str();
  command.add_option("--from", arguments->from_folder, "Cut the samples out of the photographs in this folder")
      ->type_name("FOLDER");
  command.footer("Example:\n  headrace synth /tmp/photos --files 4000 --classes 100 --seed 1");
}

}  // namespace

void add_data_commands(CLI::App& app, Selected& selected) {
  add_read(app, selected);
  add_order(app, selected);
  add_synth(app, selected);
}

}  // namespace headrace::cli
