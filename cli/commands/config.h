// SPDX-License-Identifier: Apache-2.0
// headrace config check: says whether mount would take a config file.
#pragma once

#include "headrace/cli/options/command.h"

namespace headrace::cli {

void add_config_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
