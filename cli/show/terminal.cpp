// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/terminal.h"

#include <string>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "headrace/cli/show/wrap.h"
#include "headrace/io/environment.h"
#include "headrace/io/printable.h"

namespace headrace::cli {

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  if (::isatty(::fileno(stream)) == 0) return 0;
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string toned(std::FILE* stream, Tone tone, std::string_view text) {
  const char* const no_color = io::environment("NO_COLOR");
  const char* const terminal = io::environment("TERM");
  const bool unwanted = no_color != nullptr && *no_color != '\0';
  const bool has_colors =
      ::isatty(::fileno(stream)) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
  if (tone == Tone::kPlain || unwanted || !has_colors) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", tone == Tone::kBad ? 31 : 33, text);  // red and yellow, as everywhere
}

void print_line(std::FILE* stream, std::string_view raw, std::size_t indent, Tone tone) {
  const std::string line = io::printable(raw);
  const std::size_t columns = terminal_columns(stream);
  if (columns == 0 || line.size() <= columns) return fmt::print(stream, "{}\n", toned(stream, tone, line));
  const std::string wrapped = wrap(std::string_view(line).substr(indent), {.columns = columns, .indent = indent});
  fmt::print(stream, "{}\n", toned(stream, tone, line.substr(0, indent) + wrapped));
}

}  // namespace headrace::cli
