// SPDX-License-Identifier: Apache-2.0
// headrace tier ls, info and rm, and headrace verify: look into a disk tier, remove it, check it.
#pragma once

#include <filesystem>
#include <string>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

struct TierArguments {
  std::filesystem::path path;
  bool json = false;
};
[[nodiscard]] io::Status run_tier_ls(const TierArguments& arguments);    // the data sets in it
[[nodiscard]] io::Status run_tier_info(const TierArguments& arguments);  // version, segments, bytes
[[nodiscard]] io::Status run_tier_rm(const TierArguments& arguments);

struct VerifyArguments {
  std::filesystem::path path;  // a tier
  std::string rate_limit;      // how much is read per second; empty: no limit
};
[[nodiscard]] io::Status run_verify(const VerifyArguments& arguments);

void add_tier_command(CLI::App& app, Selected& selected);
void add_verify_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
