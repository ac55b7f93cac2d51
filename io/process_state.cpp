// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/process_state.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

namespace headrace::io {
namespace {

// "PID (NAME) STATE PARENT ..." (proc(5)) behind the name, which may hold blanks and brackets.
std::istringstream words_behind_name(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return std::istringstream(name_end == std::string::npos ? std::string() : text.substr(name_end + 1));
}

// The kernel tells each thread of a process that it kills (signal(7), SIGKILL); the mark goes with the thread.
bool is_told_to_end(const std::string& thread_folder) {
  constexpr std::string_view kPending = "SigPnd:";
  std::ifstream file(thread_folder + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kPending)) continue;
    const std::uint64_t signals = std::strtoull(line.c_str() + kPending.size(), nullptr, 16);
    return (signals & (std::uint64_t{1} << (SIGKILL - 1))) != 0;
  }
  return false;
}

// The main thread of a process that was killed has mostly gone when another one waits still.
bool is_ending(pid_t pid) {
  std::error_code failure;
  const std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", pid), failure);
  return !failure && std::any_of(begin(threads), end(threads),
                                 [](const auto& thread) { return is_told_to_end(thread.path().string()); });
}

}  // namespace

std::optional<ProcessState> process_state(pid_t pid) {
  std::istringstream words = words_behind_name(fmt::format("/proc/{}/stat", pid));
  char state = 0;
  ProcessState found;
  if (!(words >> state >> found.parent)) return std::nullopt;
  found.is_stopped = state == 'T' || state == 't';
  found.is_ending = is_ending(pid);
  return found;
}

}  // namespace headrace::io
