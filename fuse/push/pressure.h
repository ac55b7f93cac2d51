// SPDX-License-Identifier: Apache-2.0
// Gives RAM back while the machine is short of it: the budget shrinks under memory pressure and grows again after it.
//
//   auto watch = PressureWatch::start(8ULL << 30, {.is_losing = [&] { return pusher.take_losses(); },
//                                                  .on_change = [&](std::uint64_t b) { pusher.limit_budget(b); },
//                                                  .on_dropped = [&] { pusher.on_pages_dropped(); }});
//
// There is pressure while somebody waits for memory, as the kernel's PSI says. The kernel's dropping of pushed pages is
// pressure as well while the memory cgroup is near its limit, and where PSI cannot be asked. Otherwise it is no sign of
// a shortage: kernels with proactive reclaim take what lies idle.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "headrace/io/memory_limit.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

// How far to go. A quarter less at each report, for pushed pages are the cheapest memory to give up; an eighth stays,
// so that reading ahead goes on; back in sixteenths, for the next shortage is likely where the last one was.
// Thread-safety: none; a plain value.
class PressureBudget {
 public:
  explicit PressureBudget(std::uint64_t full_bytes) : full_bytes_(full_bytes), bytes_(full_bytes) {}
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // True when bytes() changed.
  bool on_pressure();
  bool on_quiet();

 private:
  std::uint64_t full_bytes_;
  std::uint64_t bytes_;
};

struct PressureCallbacks {
  std::function<bool()> is_losing;  // asked once a second: have pushed pages been dropped since the last time?
  std::function<void(std::uint64_t budget_bytes)> on_change;
  std::function<void()> on_dropped = [] {};  // pushed pages were dropped without pressure; at most once a minute
  std::function<bool()> is_near_limit = [] { return io::is_near_memory_limit(); };
};

// Thread-safety: the owner's thread; the callbacks run on a thread of its own until the watch dies.
class PressureWatch {
 public:
  // Errors: kSystem (no descriptor left).
  [[nodiscard]] static io::Result<std::unique_ptr<PressureWatch>> start(std::uint64_t full_bytes,
                                                                        PressureCallbacks callbacks);
  ~PressureWatch();
  PressureWatch(const PressureWatch&) = delete;
  PressureWatch& operator=(const PressureWatch&) = delete;

  // Why PSI cannot be asked: a kernel without it, or, before Linux 6.4, a user who is not root. Losses are seen still.
  [[nodiscard]] const std::optional<io::Error>& no_psi() const { return no_psi_; }

 private:
  PressureWatch() = default;
  io::Status ask_for_psi();
  void run(PressureBudget budget, const PressureCallbacks& callbacks) const;

  std::optional<io::Error> no_psi_;
  io::UniqueFd pressure_fd_;
  io::UniqueFd stop_fd_;  // eventfd
  std::thread thread_;
};

}  // namespace headrace::fuse
