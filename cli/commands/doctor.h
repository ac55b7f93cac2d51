// SPDX-License-Identifier: Apache-2.0
// headrace doctor: what this machine offers and what limits it.
#pragma once

#include <filesystem>
#include <vector>

#include "headrace/cli/options/command.h"
#include "headrace/cli/setup/cache_arguments.h"

namespace headrace::cli {

struct DoctorArguments {
  std::filesystem::path target;  // source or mount point; empty: the machine alone
  CacheArguments cache;          // how a bucket is reached
  std::vector<std::filesystem::path> tiers;
  bool json = false;
};
[[nodiscard]] io::Status run_doctor(const DoctorArguments& arguments);

void add_doctor_command(Command& program);

}  // namespace headrace::cli
