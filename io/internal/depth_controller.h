// SPDX-License-Identifier: Apache-2.0
// How many operations to give the device at once. The number is doubled while that raises throughput, then kept, and
// tried again later.
//
//   DepthController depth({.initial = 16, .max = 128});
//   ... for each operation that ended: depth.on_finished(bytes, more_are_waiting, now);
//   ... start at most depth.depth() at once
//
// Thread-safety: none; the driving thread. No clock of its own.
#pragma once

#include <chrono>
#include <cstdint>

#include "headrace/io/engine.h"

namespace headrace::io::internal {

struct DepthOptions {
  unsigned initial = 16;
  unsigned max = 128;
};

// The bounds that the engine's options ask for; `engine_max` is what the engine can do at all.
[[nodiscard]] DepthOptions depth_options(const EngineOptions& options, unsigned engine_max);

class DepthController {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit DepthController(DepthOptions options) : options_(options), limit_(options.max), depth_(options.initial) {}

  [[nodiscard]] unsigned depth() const { return depth_; }
  [[nodiscard]] unsigned depth_max() const { return options_.max; }

  // `limited`: operations were waiting for their turn. Where none waits, throughput says nothing about the depth.
  void on_finished(std::uint64_t bytes, bool limited, TimePoint now);
  // Bounds the depth as depth_options() does for a device that seeks, or removes that bound.
  void set_rotational(bool rotational);

 private:
  void on_window(double rate);

  DepthOptions options_;
  unsigned limit_;  // options_.max, or less while the device seeks
  unsigned depth_;
  unsigned best_depth_ = 0;
  double best_rate_ = 0;       // of the window at best_depth_; 0: none measured yet
  unsigned hold_windows_ = 0;  // windows left before growing is tried again

  TimePoint window_begin_ = {};
  std::uint64_t window_work_ = 0;
  unsigned window_operations_ = 0;
};

}  // namespace headrace::io::internal
