// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/log_limit.h"

#include <algorithm>

namespace headrace::io {

bool LogLimit::admit(std::string_view kind, Clock::time_point now) {
  const MutexLock lock(mutex_);
  Window& window = windows_.try_emplace(kind.data(), Window{.kind = kind, .ends = now + options_.period}).first->second;
  // A period that left lines out ends when take_left_out() tells them.
  if (now >= window.ends && window.left_out == 0) window = {.kind = kind, .ends = now + options_.period};
  if (window.written < options_.lines) {
    ++window.written;
    return true;
  }
  if (window.left_out++ == 0) next_end_ = std::min(next_end_, window.ends);
  return false;
}

std::vector<LogLimit::LeftOut> LogLimit::take_left_out(Clock::time_point now) {
  std::vector<LeftOut> all;
  const MutexLock lock(mutex_);
  if (now < next_end_) return all;
  next_end_ = Clock::time_point::max();
  for (auto& [address, window] : windows_) {
    if (window.left_out == 0) continue;
    if (now < window.ends) {
      next_end_ = std::min(next_end_, window.ends);
      continue;
    }
    all.push_back({window.kind, window.left_out});
    window = {.kind = window.kind, .ends = window.ends};  // over: the next line begins another
  }
  return all;
}

}  // namespace headrace::io
