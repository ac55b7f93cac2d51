// SPDX-License-Identifier: Apache-2.0
// Lays help pages out for 80 columns: names on the left, wrapped descriptions with their defaults on the right.
//
//   fmt::print("{}", help_page(command, "headrace order set"));
//
// Thread-safety: pure.
#pragma once

#include <string>
#include <string_view>

#include "headrace/cli/options/command.h"

namespace headrace::cli {

// `name` is what calls the command: the program's name and the words after it.
[[nodiscard]] std::string help_page(const Command& command, std::string_view name);

}  // namespace headrace::cli
