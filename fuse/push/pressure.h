// SPDX-License-Identifier: Apache-2.0
// Gives RAM back while we are short of it: the budget shrinks under memory pressure and grows again after it.
//
//   PressureWatch watch(8ULL << 30, {.is_losing = [&] { return plan.take_losses(); },
//                                    .held_bytes = [&] { return plan.progress().held_bytes; },
//                                    .on_change = [&](std::uint64_t b, std::string_view) { plan.limit_budget(b); },
//                                    .on_dropped = [&] { plan.on_pages_dropped(); }});
//
// There is pressure while somebody of our control group waits for memory, as the kernel's PSI says. Where somebody else
// on the machine waits, there is pressure if that group of ours is near its limit, or if the machine has little left
// beside what was pushed. Otherwise another group has met its own limit, and it would gain nothing by our loss.
//
// The kernel's dropping of pushed pages is pressure as well while our group is near its limit, and where PSI cannot be
// asked. Otherwise it is no sign of a shortage: kernels with proactive reclaim take what lies idle.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>

#include "headrace/io/memory_limit.h"
#include "headrace/io/memory_pressure.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

// How far to go. A quarter less at each report, for pushed pages are the cheapest memory to give up; an eighth stays,
// so that reading ahead goes on; back in sixteenths, for the next shortage is likely where the last one was.
// Thread-safety: none; a plain value.
class PressureBudget {
 public:
  explicit PressureBudget(std::uint64_t full_bytes) : full_bytes_(full_bytes), bytes_(full_bytes) {}
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool is_full() const { return bytes_ == full_bytes_; }
  // True when bytes() changed.
  bool on_pressure();
  bool on_quiet();

 private:
  std::uint64_t full_bytes_;
  std::uint64_t bytes_;
};

struct PressureCallbacks {
  std::function<bool()> is_losing;  // asked once a second: have pushed pages been dropped since the last time?
  std::function<std::uint64_t()> held_bytes;  // of the page cache, by all mounts: the kernel counts it as to be had
  // `reason`: of the shortage, in words; empty once the budget is whole again.
  std::function<void(std::uint64_t budget_bytes, std::string_view reason)> on_change;
  std::function<void()> on_dropped = [] {};  // pushed pages were dropped without pressure; at most once a minute
  std::function<bool()> is_near_limit = [] { return io::is_near_memory_limit(); };
  io::MemoryPressurePaths paths = {};
};

// Thread-safety: the owner's thread; the callbacks run on a thread of its own until the watch dies.
class PressureWatch {
 public:
  PressureWatch(std::uint64_t full_bytes, PressureCallbacks callbacks);
  ~PressureWatch();
  PressureWatch(const PressureWatch&) = delete;
  PressureWatch& operator=(const PressureWatch&) = delete;

  // False: a kernel without PSI. Losses are seen still.
  [[nodiscard]] bool has_psi() const { return pressure_.can_tell(); }

 private:
  void run();
  // False: it is to stop.
  [[nodiscard]] bool wait_for_next_round();

  const std::uint64_t full_bytes_;
  const PressureCallbacks callbacks_;
  io::MemoryPressure pressure_;  // the thread's
  io::Mutex mutex_;
  io::CondVar stopping_;
  bool stop_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace headrace::fuse
