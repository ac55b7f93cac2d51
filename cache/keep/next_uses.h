// SPDX-License-Identifier: Apache-2.0
// When each sample is needed next, and after that: the uses of the coming epochs, told from the order.
//
//   NextUses uses(order, sample_count, epoch);
//   std::uint64_t later = uses.take(sample);   // it is read now; when again?
//   uses.enter(epoch + 1);
//
// Times are positions counted through all epochs; they rise, also over a jump to another epoch.
//
// Memory: 12 bytes per sample, and 8 per position of the epochs ahead.
// Thread-safety: none; one owner. Ownership: the order outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

class NextUses {
 public:
  NextUses(const Order& order, std::uint64_t sample_count, std::uint64_t epoch);

  // Uses of earlier epochs are past, whether they were taken or not. Draws what has come into view: O(positions ahead).
  void enter(std::uint64_t epoch);
  // The next use of the sample is now; the one after it. kNeverUsed: not within the epochs ahead.
  [[nodiscard]] std::uint64_t take(SampleIndex sample);
  [[nodiscard]] std::uint64_t upcoming(SampleIndex sample) const;
  // Behind the last use taken, or where the epoch begins.
  [[nodiscard]] std::uint64_t now() const { return now_; }

 private:
  struct Epoch {
    std::uint64_t number = 0;
    std::vector<SampleIndex> samples;
  };

  void draw_ahead(std::uint64_t epoch);
  void list_uses();
  [[nodiscard]] std::span<const std::uint32_t> uses_of(SampleIndex sample) const;
  [[nodiscard]] const std::uint32_t* find_upcoming(SampleIndex sample) const;

  const Order& order_;
  std::deque<Epoch> epochs_;  // the current one and those ahead
  std::uint64_t base_ = 0;    // when the current one begins
  std::uint64_t now_ = 0;
  std::vector<std::uint32_t> first_;  // by sample: where its uses begin in uses_; one more at the end
  std::vector<std::uint32_t> uses_;   // rising for each sample, counted from base_
  std::vector<std::uint64_t> taken_;  // by sample: uses before this time were taken
};

}  // namespace headrace::cache
