// SPDX-License-Identifier: Apache-2.0
// headrace synth: makes a data set of JPEG files to try things on.
#pragma once

#include <cstdint>
#include <filesystem>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

struct SynthArguments {
  std::filesystem::path directory;
  std::uint32_t files = 4000;
  std::uint32_t classes = 100;
  std::uint64_t seed = 1;
  std::filesystem::path from_folder;
};
[[nodiscard]] io::Status run_synth(const SynthArguments& arguments);

void add_synth_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
