// SPDX-License-Identifier: Apache-2.0
// headrace synth: makes a data set of JPEG files to try things on.
#include "headrace/cli/synth/synth.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include <fmt/core.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/terminal.h"

namespace headrace::cli {
namespace {

struct SynthArguments {
  std::filesystem::path directory;
  std::uint32_t files = 4000;
  std::uint32_t classes = 100;
  std::uint64_t seed = 1;
  std::filesystem::path from_folder;
};

io::Status run_synth(const SynthArguments& arguments) {
  StopSignal stop;
  const OnStop on_stop(stop, [] {});
  HEADRACE_TRY(report, synth_data_set({.dir = arguments.directory,
                                       .files = arguments.files,
                                       .classes = arguments.classes,
                                       .seed = arguments.seed,
                                       .from_folder = arguments.from_folder,
                                       .is_cancelled = [&] { return on_stop.stopped(); }}));
  print_line(stderr, fmt::format("{}: {} files in {} classes, {}", arguments.directory.string(), report.files,
                                 arguments.classes, format_size(report.bytes)));
  return {};
}

}  // namespace

void add_synth_command(Command& program) {
  std::shared_ptr<SynthArguments> arguments;
  Command& command = add_command(program, {kDataCommands, "synth", "Make a data set of JPEG files to try things on"},
                                 run_synth, arguments);
  command.add({.name = "DIR",
               .target = &arguments->directory,
               .help = "The folder to make; if it exists it must be empty",
               .required = true});
  command.add(
      {.name = "--files", .target = &arguments->files, .value = "N", .help = "How many files", .shows_default = true});
  command.add({.name = "--classes",
               .target = &arguments->classes,
               .value = "N",
               .help = "How many class folders",
               .shows_default = true});
  command.add({.name = "--seed",
               .target = &arguments->seed,
               .value = "N",
               .help = "Equal seeds give equal files",
               .shows_default = true});
  command.add({.name = "--from",
               .target = &arguments->from_folder,
               .value = "FOLDER",
               .help = "Cut the samples out of the photographs in this folder"});
  command.footer = "Example:\n  headrace synth /tmp/photos --files 4000 --classes 100 --seed 1";
}

}  // namespace headrace::cli
