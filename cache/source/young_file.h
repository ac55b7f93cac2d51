// SPDX-License-Identifier: Apache-2.0
// How long a file is too young to be read for keeping.
//
//   if (const auto wait = time_to_settle(identity.ctime_ns, now_ns); wait > 0ns) ...   // read it then
//
// File systems stamp changes by a clock that ticks. A write within the same tick as the one before leaves the same
// ctime, so that bytes which were read between the two would pass for those of the second. After the tick every write
// leaves another ctime, and the comparison after the read finds it.
//
// Thread-safety: a pure function.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace headrace::cache {

// A tick lasts 10 ms at most (HZ=100), and twice that is nobody's burden: only files that changed just now are waited
// for. Some file systems stamp whole seconds (ext3, inodes of 128 bytes), and FAT every second one.
inline constexpr std::chrono::milliseconds kTickMax{20};
inline constexpr std::chrono::milliseconds kWholeSecondTickMax{2000};

// How far ahead of ours a server's clock may go: a minute, so that a clock that is plainly wrong holds nobody up.
inline constexpr std::chrono::minutes kClockAheadMax{1};

// A change that seems to lie in the future was stamped before we saw it, so that one tick from now on is enough. Where
// the source's clock goes behind ours by more than a tick, or far ahead, a young file looks old.
[[nodiscard]] constexpr std::chrono::nanoseconds time_to_settle(std::int64_t ctime_ns, std::int64_t now_ns) {
  const bool whole_seconds = ctime_ns % 1'000'000'000 == 0;
  const std::chrono::nanoseconds tick = whole_seconds ? kWholeSecondTickMax : kTickMax;
  const std::chrono::nanoseconds age(now_ns - ctime_ns);
  if (age >= tick || -age > kClockAheadMax) return std::chrono::nanoseconds(0);
  return std::min(tick - age, tick);
}

}  // namespace headrace::cache
