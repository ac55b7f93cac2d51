// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/process_state.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/core.h>

namespace headrace::io {

std::optional<ProcessState> process_state(pid_t pid) {
  // "PID (NAME) STATE PARENT ..." (proc(5)): the name may hold blanks and brackets.
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  char state = 0;
  ProcessState found;
  words >> state >> found.parent;
  found.is_stopped = state == 'T' || state == 't';
  return found;
}

}  // namespace headrace::io
