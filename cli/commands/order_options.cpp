// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/order.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {
namespace {

void add_order_set(Command& order) {
  std::shared_ptr<OrderSetArguments> arguments;
  Command& command =
      add_command(order, {"Orders of mounts", "set", "Tell a mount what the loader reads"}, run_order_set, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add({.name = "SPEC",
               .target = &arguments->orders,
               .help =
                   "The order, or FOLDER=SPEC for each folder that is read; headrace order --help lists them. auto: "
                   "what it follows is dropped, and the order is found out from the opens",
               .required = true});
  command.add({.name = "--epoch",
               .target = &arguments->epoch,
               .value = "E",
               .help = "The epoch that comes next",
               .shows_default = true});
  command.footer =
      "Examples:\n"
      "  headrace order set /mnt/train torch-distributed:seed=1 --epoch 3\n"
      "  headrace order set /mnt/train auto";
}

void add_order_show(Command& order) {
  std::shared_ptr<OrderShowArguments> arguments;
  Command& command =
      add_command(order, {"Orders of mounts", "show", "Show the order of a mount and where its reader is"},
                  run_order_show, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add(json_flag(arguments->json));
  command.footer = "Example:\n  headrace order show /mnt/train";
}

void add_order_tell(Command& order) {
  std::shared_ptr<OrderTellArguments> arguments;
  Command& command = add_command(order, {"Orders of mounts", "tell", "Tell a mount one epoch, sample by sample"},
                                 run_order_tell, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add({.name = "FILE",
               .target = &arguments->file,
               .help = "Sample numbers, one a line; - is standard input",
               .required = true});
  command.add({.name = "--name",
               .target = &arguments->name,
               .value = "NAME",
               .help = "Who tells; the same name goes on with its order",
               .shows_default = true});
  command.add({.name = "--batch",
               .target = &arguments->batch,
               .value = "K",
               .help = "Samples in a batch",
               .shows_default = true});
  command.add({.name = "--workers",
               .target = &arguments->workers,
               .value = "K",
               .help = "The loader's workers",
               .shows_default = true});
  command.add({.name = "--prefetch-factor",
               .target = &arguments->prefetch_factor,
               .value = "K",
               .help = "Batches that each worker is ahead",
               .shows_default = true});
  command.add({.name = "--rank",
               .target = &arguments->rank,
               .value = "K",
               .help = "Which rank of this node reads that",
               .shows_default = true});
  command.add({.name = "--ranks",
               .target = &arguments->ranks,
               .value = "K",
               .help = "Ranks of this node; the epoch is followed once each has told",
               .shows_default = true});
  command.footer =
      "The epoch is followed at once, and given up where the loader reads otherwise.\n\n"
      "Example:\n  headrace order tell /mnt/train epoch.txt --batch 256 --workers 8";
}

void add_order_number(Command& order) {
  std::shared_ptr<OrderNumberArguments> arguments;
  Command& command =
      add_command(order, {"Orders of mounts", "number", "Print the path of each sample, in the order of their numbers"},
                  run_order_number, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add({.name = "--null",
               .letter = '0',
               .target = &arguments->null,
               .help = "End each path with a zero byte instead of a line end"});
  command.footer = "Example:\n  headrace order number /mnt/train";
}

}  // namespace

void add_order_command(Command& program) {
  std::shared_ptr<OrderArguments> arguments;
  Command& command = add_command(
      program, {kDataCommands, "order", "Print the samples of an epoch in the order of a spec"}, run_order, arguments);
  command.add({.name = "SOURCE", .target = &arguments->source, .help = "The folder or bucket that holds the data set"});
  command.add({.name = "--order",
               .target = &arguments->order,
               .value = "SPEC",
               .group = kOrderGroup,
               .help = "The order, for instance torch-distributed:seed=0,replicas=8,rank=3"});
  add_records_option(command, arguments->records);
  command.add({.name = "--epoch",
               .target = &arguments->epoch,
               .value = "E",
               .group = kOrderGroup,
               .help = "Which epoch",
               .shows_default = true});
  command.add({.name = "-n",
               .target = &arguments->count,
               .value = "K",
               .group = "Output",
               .help = "Print only the first K samples"});
  command.add({.name = "--print",
               .target = &arguments->print,
               .value = "path|index",
               .group = "Output",
               .help = "What is printed",
               .shows_default = true});
  command.add({.name = "--check",
               .target = &arguments->check,
               .value = "LOG|MOUNT",
               .group = "Output",
               .help =
                   "Compare the order with what a loader opened: a list of paths or sample numbers, one a line, or a "
                   "mount, which knows its last 65 536 opens"});
  command.add({.name = "--list",
               .target = &arguments->list,
               .group = "Output",
               .help = "Print the kinds of orders with their parameters"});
  add_listing_options(command, arguments->cache);
  add_bucket_options(command, arguments->cache);
  add_order_set(command);
  add_order_show(command);
  add_order_tell(command);
  add_order_number(command);
  command.footer =
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
      "  headrace order set /mnt/train torch-distributed:seed=1 --epoch 3";
}

}  // namespace headrace::cli
