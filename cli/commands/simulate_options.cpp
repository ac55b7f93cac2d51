// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/simulate.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_simulate_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<SimulateArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kHelpCommands, "simulate", "Predict what a cache of some size would bring"},
                  run_simulate, arguments);
  command.add_option("SOURCE", arguments->source, "The folder that holds the data set")->required();
  add_order_option(command, arguments->order, "The order to read in; see headrace order --help").capture_default_str();
  command.add_option("--cache", arguments->caches, "A cache size, or a part of the data set; may be repeated")
      ->type_name("SIZE")
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--policy", arguments->policies, "What the cache keeps; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->capture_default_str();
  add_number(command, "--epochs", arguments->epochs, "How many epochs; the first is not counted")
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--json", arguments->json, "Print one JSON object");
  add_listing_options(command, arguments->cache);
  command.footer(
      "Policies:\n"
      "  lru           the least recently read sample goes: what the page cache does\n"
      "  never-evict   what came first stays: what a tier does without an order\n"
      "  s3-fifo       what is read only once goes first: what the RAM tier does\n"
      "  min           what is read last goes, large files first (Belady)\n\n"
      "Example:\n  headrace simulate /data/train --cache 100G --cache 50% --policy lru");
}

}  // namespace headrace::cli
