// SPDX-License-Identifier: Apache-2.0
// Prints lines for people: broken between words on a terminal, whole in a pipe or a file, where grep wants whole lines.
//
//   print_line(stdout, "/data/train: 300 samples, 31.1 MiB wanted");
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace headrace::cli {

// Columns of the terminal behind `stream`; 0 when it is no terminal.
[[nodiscard]] std::size_t terminal_columns(std::FILE* stream);

enum class Tone : std::uint8_t {
  kPlain,
  kWarning,  // works, but not as well as it could
  kBad,      // does not work
};

// `text` in the colour of the tone, where `stream` is a terminal that has colours and NO_COLOR is not set
// (no-color.org). Pad it before: the colour takes no column, but characters.
[[nodiscard]] std::string toned(std::FILE* stream, Tone tone, std::string_view text);

// Prints `line` and a line end; control characters in it are written out (io/printable.h). Where it is broken, the
// later lines begin at column `indent`.
void print_line(std::FILE* stream, std::string_view line, std::size_t indent = 0, Tone tone = Tone::kPlain);

}  // namespace headrace::cli
