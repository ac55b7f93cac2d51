// SPDX-License-Identifier: Apache-2.0
// headrace synth: makes a data set to try things on.
#include <cstdio>

#include <fmt/core.h>

#include "headrace/cli/commands.h"
#include "headrace/cli/size.h"
#include "headrace/cli/synth.h"

namespace headrace::cli {

io::Status run_synth(const SynthArguments& arguments) {
  const io::Result<SynthReport> report = synth_data_set({.dir = arguments.directory,
                                                         .files = arguments.files,
                                                         .classes = arguments.classes,
                                                         .seed = arguments.seed,
                                                         .from_folder = arguments.from_folder});
  if (!report) return tl::unexpected(report.error());
  fmt::print(stderr, "{}: {} files in {} classes, {}\n", arguments.directory.string(), report->files, arguments.classes,
             format_size(report->bytes));
  return {};
}

}  // namespace headrace::cli
