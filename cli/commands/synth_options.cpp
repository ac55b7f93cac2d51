// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/synth.h"
#include "headrace/cli/options/options.h"

namespace headrace::cli {

void add_synth_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<SynthArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kDataCommands, "synth", "Make a data set of JPEG files to try things on"}, run_synth, arguments);
  command.add_option("DIR", arguments->directory, "The folder to make; if it exists it must be empty")->required();
  add_number(command, "--files", arguments->files, "How many files")->type_name("N")->capture_default_str();
  add_number(command, "--classes", arguments->classes, "How many class folders")->type_name("N")->capture_default_str();
  add_number(command, "--seed", arguments->seed, "Equal seeds give equal files")->type_name("N")->capture_default_str();
  command.add_option("--from", arguments->from_folder, "Cut the samples out of the photographs in this folder")
      ->type_name("FOLDER");
  command.footer("Example:\n  headrace synth /tmp/photos --files 4000 --classes 100 --seed 1");
}

}  // namespace headrace::cli
