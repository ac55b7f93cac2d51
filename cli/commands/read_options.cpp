// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/read.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_read_command(CLI::App& app, Selected& selected) {
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

}  // namespace headrace::cli
