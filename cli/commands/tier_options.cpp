// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/tier.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {
namespace {

void add_subcommand(CLI::App& tier, Selected& selected, const CommandText& text,
                    io::Status (*run)(const TierArguments&), bool offers_json) {
  std::shared_ptr<TierArguments> arguments;
  CLI::App& command = add_command(tier, selected, text, run, arguments);
  command.add_option("PATH", arguments->path, "The folder of the tier")->required();
  if (offers_json) command.add_flag("--json", arguments->json, "Print JSON");
  command.footer(std::string("Example:\n  headrace tier ") + text.name + " /nvme/headrace");
}

}  // namespace

void add_tier_command(CLI::App& app, Selected& selected) {
  CLI::App* tier = app.add_subcommand("tier", "Look into a disk tier, or remove it")->group(kTierCommands);
  tier->require_subcommand(1);
  tier->footer("headrace tier COMMAND --help tells more about a command.");
  add_subcommand(*tier, selected, {"Commands", "ls", "List the data sets in it"}, run_tier_ls, true);
  add_subcommand(*tier, selected, {"Commands", "info", "Show what it takes on disk"}, run_tier_info, true);
  add_subcommand(*tier, selected, {"Commands", "rm", "Remove it; everything in it can be fetched again"}, run_tier_rm,
                 false);
}

void add_verify_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<VerifyArguments> arguments;
  CLI::App& verify = add_command(app, selected, {kTierCommands, "verify", "Read a whole disk tier and check it"},
                                 run_verify, arguments);
  verify.add_option("PATH", arguments->path, "The folder of the tier; no mount may use it meanwhile")->required();
  verify.add_option("--rate-limit", arguments->rate_limit, "Read at most this much per second")->type_name("SIZE");
  verify.footer("Example:\n  headrace verify /nvme/headrace --rate-limit 200M");
}

}  // namespace headrace::cli
