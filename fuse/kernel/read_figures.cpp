// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/read_figures.h"

#include <algorithm>
#include <cstring>

namespace headrace::fuse {

void ReadFigures::count_wait(std::chrono::nanoseconds waited) {
  const double seconds = std::chrono::duration<double>(waited).count();
  const auto* const bound = std::lower_bound(kSecondsMax.begin(), kSecondsMax.end(), seconds);
  waits_[static_cast<std::size_t>(bound - kSecondsMax.begin())].fetch_add(1, std::memory_order_relaxed);
  wait_ns_.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
}

void ReadFigures::count_failure(int error) {
  const bool is_known = error > 0 && static_cast<std::size_t>(error) < kErrors;
  failures_[is_known ? static_cast<std::size_t>(error) : 0].fetch_add(1, std::memory_order_relaxed);
}

std::vector<ReadFigures::Wait> ReadFigures::waits() const {
  std::vector<Wait> waits;
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    const std::optional<double> bound = i < kSecondsMax.size() ? std::optional(kSecondsMax[i]) : std::nullopt;
    waits.push_back({bound, waits_[i].load(std::memory_order_relaxed)});
  }
  return waits;
}

double ReadFigures::wait_seconds() const {
  return 1e-9 * static_cast<double>(wait_ns_.load(std::memory_order_relaxed));
}

std::vector<ReadFigures::Failure> ReadFigures::failures() const {
  std::vector<Failure> failures;
  for (std::size_t error = 0; error < kErrors; ++error) {
    const std::uint64_t count = failures_[error].load(std::memory_order_relaxed);
    if (count == 0) continue;
    const char* const name = error > 0 ? ::strerrorname_np(static_cast<int>(error)) : nullptr;
    failures.push_back({name != nullptr ? name : "unknown", count});
  }
  return failures;
}

}  // namespace headrace::fuse
