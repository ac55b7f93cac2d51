// SPDX-License-Identifier: Apache-2.0
// Options of the commands that find things out.
#include "headrace/cli/options/options.h"

namespace headrace::cli {
namespace {

void add_doctor(CLI::App& app, Selected& selected) {
  std::shared_ptr<DoctorArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kHelpCommands, "doctor", "What this machine offers, and what limits it"}, run_doctor, arguments);
  command.add_option("TARGET", arguments->target, "A source folder or a mount: looks at its file systems too");
  command.add_option("--tier", arguments->tiers, "A folder that is to become a tier")
      ->type_name("PATH")
      ->allow_extra_args(false);
  command.add_flag("--json", arguments->json, "Print one JSON object");
  command.footer("Example:\n  headrace doctor /data/train --tier /nvme");
}

void add_diagnose(CLI::App& app, Selected& selected) {
  std::shared_ptr<DiagnoseArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kHelpCommands, "diagnose", "Is the training waiting for data, and why?"},
                  run_diagnose, arguments);
  command.add_option("TARGET", arguments->target, "A source folder, or a mount that a training reads")->required();
  command.add_option("COMMAND", arguments->command, "After --: a training to run and watch meanwhile");
  add_number(command, "--seconds", arguments->seconds, "How long to look")->type_name("N")->capture_default_str();
  command.add_flag("--json", arguments->json, "Print one JSON object");
  add_listing_options(command, arguments->cache);
  add_tier_options(command, arguments->cache);
  command.footer(
      "Examples:\n"
      "  headrace diagnose /data/train\n"
      "  headrace diagnose /data/train --ssd /nvme/headrace:200G\n"
      "  headrace diagnose /mnt/train --seconds 30 -- python train.py");
}

void add_simulate(CLI::App& app, Selected& selected) {
  std::shared_ptr<SimulateArguments> arguments;
  CLI::App& command = add_command(app, selected, {kHelpCommands, "simulate", "What a cache of some size would bring"},
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
      "  never-evict   what came first stays: what a tier does without knowing better\n"
      "  s3-fifo       what is read only once goes first: what the RAM tier does\n"
      "  min           what is read last of all goes, large before small (Belady)\n\n"
      "Example:\n  headrace simulate /data/train --cache 100G --cache 50% --policy lru");
}

}  // namespace

void add_help_commands(CLI::App& app, Selected& selected) {
  add_doctor(app, selected);
  add_diagnose(app, selected);
  add_simulate(app, selected);
  add_config_command(app, selected);
  add_reference_commands(app, selected);
}

}  // namespace headrace::cli
