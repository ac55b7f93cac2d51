// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/synth.h"

#include <cstdio>

#include <fmt/core.h>

#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/cli/synth/synth.h"

namespace headrace::cli {

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

}  // namespace headrace::cli
