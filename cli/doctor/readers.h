// SPDX-License-Identifier: Apache-2.0
// How busy the processes of a loader are, from /proc.
//
//   ReaderWatch readers;
//   while (...) { readers.note(pids_that_read_now); wait(); }
//   const ReaderTimes times = readers.times();
//
// A process counts from the first time that it is noted until the last look at it.
// Thread-safety: none; one owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace headrace::cli {

struct ReaderTimes {
  std::uint32_t readers = 0;
  double seconds = 0;       // that they were watched, all together
  double cpu_seconds = 0;   // that they ran
  double core_seconds = 0;  // that they waited for a core
};

class ReaderWatch {
 public:
  // Looks at these and at all that were noted before.
  void note(const std::vector<pid_t>& pids);
  [[nodiscard]] ReaderTimes times() const;

 private:
  struct Look {
    std::chrono::steady_clock::time_point at;
    double cpu_seconds = 0;
    double core_seconds = 0;
  };
  struct Watched {
    Look first;
    Look last;
  };
  [[nodiscard]] static std::optional<Look> look_at(pid_t pid);

  std::map<pid_t, Watched> watched_;
};

// The processes of a group that have no child in it: the workers of a loader, or the one process where there are none.
[[nodiscard]] std::vector<pid_t> workers_of_group(pid_t group);

}  // namespace headrace::cli
