// SPDX-License-Identifier: Apache-2.0
// Whether reading ahead makes the source open more files than the loader does: what was pushed and went unread was
// fetched for nothing.
//
//   HarmWatch harm(sample_count);
//   harm.on_pushed(sample);
//   if (harm.on_open(sample)) stop_for_a_while();
//
// Thread-safety: none; one owner. Memory: a bit per sample.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::fuse {

class HarmWatch {
 public:
  explicit HarmWatch(std::uint64_t sample_count)
      : window_opens_(std::clamp(sample_count / 4, kWindowLeast, kWindowMost)), unread_(sample_count, false) {}

  void on_pushed(cache::SampleIndex sample) {
    ++fetched_;
    if (!unread_[sample]) ++unread_count_;
    unread_[sample] = true;
  }
  // A READ that the page cache could not serve.
  void on_fetched_for_reader() { ++fetched_; }
  // What was pushed is held no more.
  void on_gone(cache::SampleIndex sample) {
    if (unread_[sample]) --unread_count_;
    unread_[sample] = false;
  }
  // True at the end of a window in which more was fetched than opened, what is held for later aside.
  [[nodiscard]] bool on_open(cache::SampleIndex sample) {
    on_gone(sample);
    if (++opens_ < window_opens_) return false;
    const bool is_harmful = fetched_ + unread_before_ > opens_ + opens_ / kTolerated + kSlack + unread_count_;
    restart();
    return is_harmful;
  }
  void restart() {
    opens_ = 0;
    fetched_ = 0;
    unread_before_ = unread_count_;
  }

 private:
  // Long enough for what a few strays and a new epoch cost, and several windows in each epoch of a large data set.
  static constexpr std::uint64_t kWindowLeast = 512;
  static constexpr std::uint64_t kWindowMost = 65'536;
  static constexpr std::uint64_t kTolerated = 33;  // 3 %
  static constexpr std::uint64_t kSlack = 16;      // a batch that was fetched twice

  const std::uint64_t window_opens_;
  std::vector<bool> unread_;  // pushed and not opened since
  std::uint64_t unread_count_ = 0;
  std::uint64_t unread_before_ = 0;  // at the beginning of the window
  std::uint64_t opens_ = 0;          // in it, as the next
  std::uint64_t fetched_ = 0;
};

}  // namespace headrace::fuse
