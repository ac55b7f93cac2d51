// SPDX-License-Identifier: Apache-2.0
// Makes text from outside safe to show. The name of a file may hold control characters, and a terminal would obey them;
// a line end in a name would make two lines of one in a log.
//
//   print("{} is not a folder\n", printable(path.native()));
//
// Thread-safety: any thread.
#pragma once

#include <string>
#include <string_view>

namespace headrace::io {

// The text with each control character, and each byte that is no UTF-8, written as \n, \t, \r or \xNN. It is for people
// and cannot be read back: backslashes stay as they are.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace headrace::io
