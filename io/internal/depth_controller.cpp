// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/depth_controller.h"

#include <algorithm>

namespace headrace::io::internal {
namespace {

// One head: few in flight at first. 32 is what a disk can queue and sort by itself (NCQ); virtual disks call themselves
// rotational whatever they are, so it is throughput that decides.
constexpr unsigned kRotationalInitialDepth = 4;
constexpr unsigned kRotationalDepthMax = 32;
// Where an SSD is busy; a slow network share is found out in two windows. From 32, records of a tier on a virtual disk
// came at 0.83 of its rate, from 64 at 0.91, from 128 at 0.89 (median of 24 rounds, 2026-11-22): what a doubling gains
// there is less than a window can tell for sure.
constexpr unsigned kInitialDepth = 64;
// Short windows, for a share with 20 ms per read must not take seconds to open up. Sizes vary by 70 %, so 64 samples
// give the mean to 9 %. That a flat curve then passes for a rising one now and then does no harm: too deep costs
// little.
constexpr unsigned kWindowOperationsMin = 64;
constexpr unsigned kWindowRoundsMin = 2;  // a window sees each place used more than once
constexpr double kGainWorthDoubling = 1.05;
// After 64 windows without growth the load or the device may be another.
constexpr unsigned kHoldWindows = 64;
// What one operation costs a device besides its bytes, in bytes; it levels windows of small and of large files.
constexpr std::uint64_t kOperationWork = 32'768;

}  // namespace

DepthOptions depth_options(const EngineOptions& options, unsigned engine_max) {
  const unsigned max = std::clamp(options.queue_depth_max, 1u, engine_max);
  if (!options.rotational) return {.initial = std::min(max, kInitialDepth), .max = max};
  return {.initial = std::min(max, kRotationalInitialDepth), .max = std::min(max, kRotationalDepthMax)};
}

void DepthController::on_finished(std::uint64_t bytes, bool limited, TimePoint now) {
  if (!limited || window_operations_ == 0) {
    window_begin_ = now;
    window_work_ = 0;
    window_operations_ = limited ? 1 : 0;
    return;
  }
  window_work_ += bytes + kOperationWork;
  ++window_operations_;
  const double seconds = std::chrono::duration<double>(now - window_begin_).count();
  if (window_operations_ <= std::max(kWindowOperationsMin, kWindowRoundsMin * depth_) || seconds <= 0) return;
  const double rate = static_cast<double>(window_work_) / seconds;
  window_operations_ = 0;
  on_window(rate);
}

void DepthController::set_rotational(bool rotational) {
  limit_ = rotational ? std::min(options_.max, kRotationalDepthMax) : options_.max;
  depth_ = std::min(depth_, limit_);
  best_rate_ = 0;  // another device, as far as is known: what was measured does not bind it
  hold_windows_ = 0;
}

void DepthController::on_window(double rate) {
  if (hold_windows_ > 0) {
    if (--hold_windows_ == 0) best_rate_ = 0;  // the next window is the new yardstick
    return;
  }
  if (best_rate_ == 0 || rate > best_rate_ * kGainWorthDoubling) {
    best_rate_ = rate;
    best_depth_ = depth_;
    if (depth_ < limit_) depth_ = std::min(2 * depth_, limit_);
    return;
  }
  depth_ = best_depth_;
  hold_windows_ = kHoldWindows;
}

}  // namespace headrace::io::internal
