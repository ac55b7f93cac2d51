// SPDX-License-Identifier: Apache-2.0
// Gives RAM back while the machine is short of it: the budget shrinks under memory pressure and grows again after it.
//
//   auto watch = PressureWatch::start(8ULL << 30, [&](std::uint64_t bytes) { pusher.set_budget(bytes); });
//
// Pressure is what the kernel calls so (PSI): time in which somebody waits for memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

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

// Thread-safety: the owner's thread; the callback runs on a thread of its own until the watch dies.
class PressureWatch {
 public:
  // Errors: kNotFound (a kernel without PSI), kPermission (before Linux 6.4 only root may ask).
  [[nodiscard]] static io::Result<std::unique_ptr<PressureWatch>> start(
      std::uint64_t full_bytes, std::function<void(std::uint64_t budget_bytes)> on_change);
  ~PressureWatch();
  PressureWatch(const PressureWatch&) = delete;
  PressureWatch& operator=(const PressureWatch&) = delete;

 private:
  PressureWatch() = default;
  void run(PressureBudget budget, const std::function<void(std::uint64_t)>& on_change) const;

  io::UniqueFd pressure_fd_;
  io::UniqueFd stop_fd_;  // eventfd
  std::thread thread_;
};

}  // namespace headrace::fuse
