// SPDX-License-Identifier: Apache-2.0
// headrace completion and headrace manual: the command line described by itself.
#pragma once

#include "headrace/cli/options/command.h"

namespace headrace::cli {

void add_completion_command(CLI::App& app, Selected& selected);
void add_manual_command(CLI::App& app, Selected& selected);

}  // namespace headrace::cli
