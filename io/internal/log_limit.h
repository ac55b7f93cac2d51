// SPDX-License-Identifier: Apache-2.0
// Keeps an event that repeats a million times from filling the log. A few lines of each kind are written in a period,
// the others are counted, and the counts are told when the period is over.
//
//   LogLimit limit({.lines = 20, .period = 10s});
//   const bool write = limit.admit(format, now);
//   for (const LogLimit::LeftOut& left_out : limit.take_left_out(now)) ...
//
// It has neither a clock nor a log of its own. It remembers as many kinds as there are places in the program that log.
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::io {

class LogLimit {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::uint32_t lines = 20;                // of one kind per period: enough to see a pattern
    Clock::duration period{10'000'000'000};  // 10 s; a day of one endless error is then 170 000 lines at most
  };
  struct LeftOut {
    std::string_view kind;
    std::uint64_t lines = 0;
  };

  explicit LogLimit(Options options) : options_(options) {}

  // Whether a line of this kind may be written now; if not it is counted. `kind` is a format string, which lives as
  // long as the program; its address tells kinds apart.
  [[nodiscard]] bool admit(std::string_view kind, Clock::time_point now);
  // How many lines were left out in the periods that are over by `now`. Each line is counted once.
  [[nodiscard]] std::vector<LeftOut> take_left_out(Clock::time_point now);

 private:
  struct Window {
    std::string_view kind;
    Clock::time_point ends;
    std::uint32_t written = 0;
    std::uint64_t left_out = 0;
  };
  const Options options_;
  Mutex mutex_;
  std::unordered_map<const char*, Window> windows_ HEADRACE_GUARDED_BY(mutex_);
  Clock::time_point next_end_ HEADRACE_GUARDED_BY(mutex_) = Clock::time_point::max();  // of those that left lines out
};

}  // namespace headrace::io
