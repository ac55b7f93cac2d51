// SPDX-License-Identifier: Apache-2.0
// One line per event, written where the event is detected. Lines below the level set are not written. Lines go to
// stderr until another place is set.
//
// An event that repeats gets at most 20 lines in 10 s; one format string is one kind of event. A line then tells how
// many were left out, when the 10 s are over or when the program ends. Lines for debugging are all written.
//
//   log_warning("tier {}: full, admission stopped", path);
//
// Thread-safety: any thread, any function.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace headrace::io {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
// Appends to `path` instead of stderr. False (with errno set) when it cannot be opened.
[[nodiscard]] bool set_log_file(const char* path);
// From now on stderr is a stream to systemd's journal. The journal keeps the time and the process by itself, so lines
// begin with their priority instead ("<4>", sd-daemon(3)). To be called before other threads log.
void set_log_to_journal();
[[nodiscard]] bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view line);

// Whether a line of this format may be written now; counts the lines that it refuses.
[[nodiscard]] bool log_admits(LogLevel level, std::string_view format);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  const fmt::string_view text = format;
  if (log_enabled(level) && log_admits(level, {text.data(), text.size()}))
    log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace headrace::io
