// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/wrap.h"

#include <sstream>

namespace headrace::cli {

std::string wrap(std::string_view text, WrapOptions options) {
  std::string wrapped;
  std::size_t column = options.indent;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const bool begins = column == options.indent;
    if (!begins && options.columns > 0 && column + 1 + word.size() > options.columns) {
      wrapped += '\n' + std::string(options.indent, ' ');
      column = options.indent;
    } else if (!begins) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

}  // namespace headrace::cli
