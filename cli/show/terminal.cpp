// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/terminal.h"

#include <string>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "headrace/cli/show/wrap.h"
#include "headrace/io/printable.h"

namespace headrace::cli {

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  if (::isatty(::fileno(stream)) == 0) return 0;
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void print_line(std::FILE* stream, std::string_view raw, std::size_t indent) {
  const std::string line = io::printable(raw);
  const std::size_t columns = terminal_columns(stream);
  if (columns == 0 || line.size() <= columns) return fmt::print(stream, "{}\n", line);
  fmt::print(stream, "{}{}\n", line.substr(0, indent),
             wrap(std::string_view(line).substr(indent), {.columns = columns, .indent = indent}));
}

}  // namespace headrace::cli
