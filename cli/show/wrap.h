// SPDX-License-Identifier: Apache-2.0
// Text for a terminal, broken between words.
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
  std::size_t columns = 80;  // that a line may have; 0: no limit, as for a pipe
  std::size_t indent = 0;    // where the first line begins already, and the others are to begin
};

// A word longer than a line has one of its own. Spaces and line ends part words and are not kept.
[[nodiscard]] std::string wrap(std::string_view text, WrapOptions options);

}  // namespace headrace::cli
