// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/depth_controller.h"

#include <algorithm>

namespace headrace::io::internal {
namespace {

// A disk with one head gets few operations at first. 32 is what a disk can queue and sort by itself (NCQ). Virtual
// disks call themselves rotational whatever they are, so throughput decides how far to go.
constexpr unsigned kRotationalInitialDepth = 4;
constexpr unsigned kRotationalDepthMax = 32;
// Enough to keep an SSD busy; two windows show that a network share needs more. Started at 32, records of a tier on a
// virtual disk came at 0.83 of the disk's rate, at 64 at 0.91, at 128 at 0.89 (median of 24 rounds, 2026-11-22). A
// doubling gains less there than a window can tell for sure.
constexpr unsigned kInitialDepth = 64;
// Windows are short, so that a share with 20 ms per read reaches its depth within a second. Sizes vary by 70 %, so 64
// samples give the mean to 9 %. Now and then noise looks like a gain; that costs little, because too deep does.
constexpr unsigned kWindowOperationsMin = 64;
constexpr unsigned kWindowRoundsMin = 2;  // in a window each place in the queue is used twice or more
constexpr double kGainWorthDoubling = 1.05;
// After 64 windows without growth the load may have changed, so growing is tried again.
constexpr unsigned kHoldWindows = 64;
// What one operation costs a device besides its bytes, in bytes. With it, windows of small and of large files compare.
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
  best_rate_ = 0;  // what was measured belongs to what the device was believed to be
  hold_windows_ = 0;
}

void DepthController::on_window(double rate) {
  if (hold_windows_ > 0) {
    if (--hold_windows_ == 0) best_rate_ = 0;  // the next window is what later ones are compared with
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
