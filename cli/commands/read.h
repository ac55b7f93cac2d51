// SPDX-License-Identifier: Apache-2.0
// headrace read: reads epochs through the C++ reader and prints how fast that was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

struct ReadArguments {
  std::filesystem::path source;
  CacheArguments cache;
  std::string order = "sequential";
  std::uint64_t epochs = 1;
  std::uint64_t first_epoch = 0;
  bool decode = false;
  bool profile = false;  // with decode: print which stage took the time
  bool checksum = false;
  bool json = false;
};
[[nodiscard]] io::Status run_read(const ReadArguments& arguments);

void add_read_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
