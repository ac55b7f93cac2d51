// SPDX-License-Identifier: Apache-2.0
// Words as completions need them, whatever the shell.
//
//   last_word("order set");    // "set"
//   join({"lru", "belady"});   // "lru belady"
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

namespace headrace::cli {

[[nodiscard]] inline std::string last_word(const std::string& name) {
  return name.substr(name.rfind(' ') + 1);  // npos + 1 is 0: the whole of one word
}

[[nodiscard]] inline std::string join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

}  // namespace headrace::cli
