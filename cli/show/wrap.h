// SPDX-License-Identifier: Apache-2.0
// Breaks a text between words.
//
//   fmt::print("{:<10}{}\n", name, wrap(text, {.columns = 80, .indent = 10}));
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headrace::cli {

struct WrapOptions {
  std::size_t columns = 80;  // the longest line; 0: no limit, as for a pipe
  std::size_t indent = 0;    // the column where the first line stands already, and where the others begin
};

// A word that is longer than a line gets a line of its own. Spaces and line ends part words and are not kept.
[[nodiscard]] std::string wrap(std::string_view text, WrapOptions options);

}  // namespace headrace::cli
