// SPDX-License-Identifier: Apache-2.0
// Pieces of manual pages in roff.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "headrace/cli/reference/reference.h"

namespace headrace::cli {

// Makes plain text safe for roff, where backslashes, hyphens and a dot at the start of a line have a meaning.
[[nodiscard]] std::string escape_roff(std::string_view text);

struct EntryOptions {
  bool environment = true;  // name the variable that sets it
};
// What an option does, with its choices, its default and what sets it, under a head of its own.
[[nodiscard]] std::string roff_entry(std::string_view head, const OptionReference& option, EntryOptions options);

}  // namespace headrace::cli
