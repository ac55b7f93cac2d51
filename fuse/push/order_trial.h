// SPDX-License-Identifier: Apache-2.0
// Whether the opens contradict an order that somebody told.
//
//   OrderTrial trial(samples_of_the_epoch, sample_count);
//   if (trial.is_contradicted_by(sample, is_stray)) give_up();
//
// Opens of samples that the order does not have say nothing about it: they are another loader's, of the validation set.
// Thread-safety: none; one owner.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::fuse {

class OrderTrial {
 public:
  OrderTrial(std::span<const cache::SampleIndex> epoch, std::uint64_t sample_count) : told_(sample_count, false) {
    for (const cache::SampleIndex sample : epoch) told_[sample] = true;
  }

  [[nodiscard]] bool is_contradicted_by(cache::SampleIndex sample, bool is_stray) {
    if (!told_[sample]) return false;
    strays_ = strays_ << 1 | (is_stray ? 1U : 0U);
    return std::popcount(strays_) >= kStraysMax;
  }

 private:
  // 40 of the last 64 opens: a reader that only went elsewhere in its order is found again after some ten, and a second
  // reader of the same files makes half of all opens strays.
  static constexpr int kStraysMax = 40;

  std::vector<bool> told_;    // by sample
  std::uint64_t strays_ = 0;  // one bit for each of the last 64 opens
};

}  // namespace headrace::fuse
