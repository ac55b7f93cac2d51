// SPDX-License-Identifier: Apache-2.0
// How much of its order each epoch reads, where that is not all of it: limit_train_batches, steps_per_epoch, a break.
//
//   EpochLength length;
//   length.on_epoch(2010, 4000);              // one that ended
//   length.samples();                         // 2046, a little more
//   if (length.on_read(2300)) follow_all();   // the epoch under way goes on
//
// One epoch that ends early is believed: where the next one goes on, some of its samples are read from the source when
// they are asked for. After that it takes two that end at the same place.
//
// Pure. Thread-safety: none; a plain value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace headrace::cache {

class EpochLength {
 public:
  void on_epoch(std::uint64_t read, std::uint64_t samples) {
    const bool ends_early = read * 10 < samples * 9;
    if (samples_ > 0 && !ends_early) was_wrong_ = true;
    const std::uint64_t before = std::exchange(last_, ends_early ? read : 0);
    if (!is_about(before, last_)) {
      samples_ = was_wrong_ ? 0 : in_steps(last_, samples);
    } else if (const std::uint64_t longer = std::max(before, last_); !is_about(samples_, longer) || longer > samples_) {
      samples_ = in_steps(longer, samples);
    }
  }

  // True: further than was believed, and nothing is believed any more.
  [[nodiscard]] bool on_read(std::uint64_t read) {
    if (samples_ == 0 || read <= samples_ + leeway(samples_)) return false;
    samples_ = 0;
    was_wrong_ = true;
    return true;
  }

  void forget() { *this = {}; }

  [[nodiscard]] std::uint64_t samples() const { return samples_; }  // 0: all, as far as is known

 private:
  // Workers are ahead of the loop by different amounts when it ends.
  [[nodiscard]] static std::uint64_t leeway(std::uint64_t samples) { return 64 + samples / 16; }
  [[nodiscard]] static bool is_about(std::uint64_t one, std::uint64_t other) {
    const auto [less, more] = std::minmax(one, other);
    return less > 0 && more - less <= leeway(more);
  }
  // Each other length is planned anew, and a few samples more or less are none.
  [[nodiscard]] static std::uint64_t in_steps(std::uint64_t read, std::uint64_t samples) {
    const std::uint64_t step = std::max<std::uint64_t>(samples / 64, 1);
    return (read + step - 1) / step * step;
  }

  std::uint64_t last_ = 0;  // of the last epoch, if it ended early
  std::uint64_t samples_ = 0;
  bool was_wrong_ = false;
};

}  // namespace headrace::cache
