// SPDX-License-Identifier: Apache-2.0
// Whether the opens contradict an order that somebody gave or told.
//
//   OrderTrial trial(samples_of_the_epoch, sample_count);
//   if (trial.is_contradicted_by(sample, is_stray)) give_up();
//   EpochPace pace;
//   if (pace.is_impossible(epoch, epoch_length, opens, strays)) give_up();   // whenever the epoch may have changed
//
// Opens of samples that the order does not have say nothing about it: they are another loader's, of the validation set.
// Thread-safety: none; one owner.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::fuse {

class OrderTrial {
 public:
  OrderTrial(std::span<const cache::SampleIndex> epoch, std::uint64_t sample_count)
      : step_(std::max<std::uint64_t>(1, epoch.size() / kStepsPerEpoch)), told_(sample_count, false) {
    for (const cache::SampleIndex sample : epoch) told_[sample] = true;
  }

  [[nodiscard]] bool is_contradicted_by(cache::SampleIndex sample, bool is_stray) {
    if (!told_[sample]) return false;
    step_strays_ += is_stray ? 1 : 0;
    if (++step_opens_ < step_) return false;
    strays_ = strays_ << 1 | (step_strays_ * 2 > step_ ? 1U : 0U);
    step_opens_ = step_strays_ = 0;
    return std::popcount(strays_) >= kStraysMax;
  }
  // The reader was moved: what was a stray then says nothing.
  void restart() { strays_ = step_opens_ = step_strays_ = 0; }

 private:
  // 40 of the last 64 steps: a reader that only went elsewhere in its order is found again after some ten opens, and a
  // second reader of the same files makes half of all opens strays.
  static constexpr int kStraysMax = 40;
  // A step is one open, or so many that 64 of them are a 32nd of an epoch: somebody who looks at some thousand files of
  // a large data set ends no order.
  static constexpr std::uint64_t kStepsPerEpoch = 2048;

  std::uint64_t step_;      // in opens
  std::vector<bool> told_;  // by sample
  std::uint64_t step_opens_ = 0;
  std::uint64_t step_strays_ = 0;
  std::uint64_t strays_ = 0;  // one bit for each of the last 64 steps: most of its opens were strays
};

// An epoch counter that runs away: two epochs went by in fewer opens than half of one has positions, and many of these
// were not expected. (Whoever reads the first part of each epoch alone, as for a given number of batches, reads what is
// expected.) Equal opens that follow each other are seen as one, so that repeated augmentation may show a third of its
// opens.
class EpochPace {
 public:
  [[nodiscard]] bool is_impossible(std::uint64_t epoch, std::uint64_t length, std::uint64_t opens,
                                   std::uint64_t strays) {
    if (epoch == entered_.epoch) return false;
    const bool goes_on = epoch > entered_.epoch && epoch - entered_.epoch <= 2;
    const bool two = goes_on && before_ && epoch >= before_->epoch + 2;
    const bool impossible = two && (opens - before_->opens) * 2 < std::min(before_->length, entered_.length) &&
                            (strays - before_->strays) * kStrayShare >= opens - before_->opens;
    before_ = goes_on && entered_.is_whole ? std::optional(entered_) : std::nullopt;
    entered_ = {.epoch = epoch, .length = length, .opens = opens, .strays = strays, .is_whole = goes_on};
    return impossible;
  }
  // The reader was moved: what it enters next is the first epoch that is counted.
  void restart(std::uint64_t epoch) {
    entered_ = {.epoch = epoch, .length = 0, .opens = 0, .strays = 0, .is_whole = false};
    before_.reset();
  }

 private:
  static constexpr std::uint64_t kStrayShare = 8;  // an eighth: workers that lag behind make fewer

  struct Entry {
    std::uint64_t epoch = 0;
    std::uint64_t length = 0;
    std::uint64_t opens = 0;  // by then, as are the strays
    std::uint64_t strays = 0;
    bool is_whole = false;  // entered from the epoch before
  };
  Entry entered_;
  std::optional<Entry> before_;
};

}  // namespace headrace::fuse
