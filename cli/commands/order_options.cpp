// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/order.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {
namespace {

void add_order_set(CLI::App& order, Selected& selected) {
  std::shared_ptr<OrderSetArguments> arguments;
  CLI::App& command = add_command(order, selected, {"Orders of mounts", "set", "Tell a mount what the loader reads"},
                                  run_order_set, arguments);
  add_mount_point(command, arguments->mount_point);
  command
      .add_option("SPEC", arguments->orders,
                  "The order, or FOLDER=SPEC for each folder that is read; headrace order --help lists them. auto: "
                  "what it follows is dropped, and the order is found out from the opens")
      ->required();
  add_number(command, "--epoch", arguments->epoch, "The epoch that comes next")->type_name("E")->capture_default_str();
  command.footer(
      "Examples:\n"
      "  headrace order set /mnt/train torch-distributed:seed=1 --epoch 3\n"
      "  headrace order set /mnt/train auto");
}

void add_order_show(CLI::App& order, Selected& selected) {
  std::shared_ptr<OrderShowArguments> arguments;
  CLI::App& command =
      add_command(order, selected, {"Orders of mounts", "show", "Show the order of a mount and where its reader is"},
                  run_order_show, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add_flag("--json", arguments->json, "Print one JSON object");
  command.footer("Example:\n  headrace order show /mnt/train");
}

void add_order_tell(CLI::App& order, Selected& selected) {
  std::shared_ptr<OrderTellArguments> arguments;
  CLI::App& command =
      add_command(order, selected, {"Orders of mounts", "tell", "Tell a mount one epoch, sample by sample"},
                  run_order_tell, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add_option("FILE", arguments->file, "Sample numbers, one a line; - is standard input")->required();
  command.add_option("--name", arguments->name, "Who tells; the same name goes on with its order")
      ->type_name("NAME")
      ->capture_default_str();
  add_number(command, "--batch", arguments->batch, "Samples in a batch")->type_name("K")->capture_default_str();
  add_number(command, "--workers", arguments->workers, "The loader's workers")->type_name("K")->capture_default_str();
  add_number(command, "--prefetch-factor", arguments->prefetch_factor, "Batches that each worker is ahead")
      ->type_name("K")
      ->capture_default_str();
  add_number(command, "--rank", arguments->rank, "Which rank of this node reads that")
      ->type_name("K")
      ->capture_default_str();
  add_number(command, "--ranks", arguments->ranks, "Ranks of this node; the epoch is followed once each has told")
      ->type_name("K")
      ->capture_default_str();
  command.footer(
      "The epoch is followed at once, and given up where the loader reads otherwise.\n\n"
      "Example:\n  headrace order tell /mnt/train epoch.txt --batch 256 --workers 8");
}

void add_order_number(CLI::App& order, Selected& selected) {
  std::shared_ptr<OrderNumberArguments> arguments;
  CLI::App& command = add_command(
      order, selected, {"Orders of mounts", "number", "Print the path of each sample, in the order of their numbers"},
      run_order_number, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add_flag("-0,--null", arguments->null, "End each path with a zero byte instead of a line end");
  command.footer("Example:\n  headrace order number /mnt/train");
}

}  // namespace

void add_order_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<OrderArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kDataCommands, "order", "Print the samples of an epoch in the order of a spec"},
                  run_order, arguments);
  command.add_option("SOURCE", arguments->source, "The folder or bucket that holds the data set");
  add_order_option(command, arguments->order, "The order, for instance torch-distributed:seed=0,replicas=8,rank=3");
  add_records_option(command, arguments->records);
  add_number(command, "--epoch", arguments->epoch, "Which epoch")
      ->type_name("E")
      ->capture_default_str()
      ->group(kOrderGroup);
  add_number(command, "-n", arguments->count, "Print only the first K samples")->type_name("K")->group("Output");
  command.add_option("--print", arguments->print, "What is printed")
      ->type_name("path|index")
      ->capture_default_str()
      ->group("Output");
  command
      .add_option("--check", arguments->check,
                  "Compare the order with what a loader opened: a list of paths or sample numbers, one a line, or a "
                  "mount, which knows its last 65 536 opens")
      ->type_name("LOG|MOUNT")
      ->group("Output");
  command.add_flag("--list", arguments->list, "Print the kinds of orders with their parameters")->group("Output");
  add_listing_options(command, arguments->cache);
  add_bucket_options(command, arguments->cache);
  add_order_set(command, selected);
  add_order_show(command, selected);
  add_order_tell(command, selected);
  add_order_number(command, selected);
  command.footer(
      "Orders:\n"
      "  sequential, torch-distributed, torch-random, torch-subset, ra-sampler,\n"
      "  hf-trainer, lightning, detectron2, mmengine, numpy, python, dali, ffcv, dlio,\n"
      "  keras, grain, streaming, webdataset, litdata, torch-weighted, first,\n"
      "  file:PATH;\n"
      "  parameters follow, for instance :seed=0,replicas=8,rank=3;\n"
      "  headrace order --list has them all\n\n"
      "Examples:\n"
      "  headrace order /data/train --order torch-distributed:seed=0 -n 5\n"
      "  headrace order /data/train --order torch-distributed:seed=0 --check /mnt/train\n"
      "  headrace order /data/lmdb --records auto --order torch-random:seed=42\n"
      "  headrace order set /mnt/train torch-distributed:seed=1 --epoch 3");
}

}  // namespace headrace::cli
