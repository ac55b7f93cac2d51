// SPDX-License-Identifier: Apache-2.0
// headrace doctor: what this machine offers and what limits it.
#pragma once

#include <filesystem>
#include <vector>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

struct DoctorArguments {
  std::filesystem::path target;  // source folder or mount point; empty: the machine alone
  std::vector<std::filesystem::path> tiers;
  bool json = false;
};
[[nodiscard]] io::Status run_doctor(const DoctorArguments& arguments);

void add_doctor_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
