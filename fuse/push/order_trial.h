// SPDX-License-Identifier: Apache-2.0
// Whether the opens contradict an order that somebody gave or told.
//
//   OrderTrial trial(samples_of_the_epoch, sample_count);
//   if (trial.is_contradicted_by(sample, is_stray)) give_up();
//   EpochPace pace;
//   if (pace.is_impossible(epoch, epoch_length, opens)) give_up();   // whenever the epoch may have changed
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
  OrderTrial(std::span<const cache::SampleIndex> epoch, std::uint64_t sample_count) : told_(sample_count, false) {
    for (const cache::SampleIndex sample : epoch) told_[sample] = true;
  }

  OrderTrial() = default;  // of an order that has every sample it is asked for

  [[nodiscard]] bool is_contradicted_by(cache::SampleIndex sample, bool is_stray) {
    if (!told_.empty() && !told_[sample]) return false;
    strays_ = strays_ << 1 | (is_stray ? 1U : 0U);
    return std::popcount(strays_) >= kStraysMax;
  }

 private:
  // 40 of the last 64 opens: a reader that only went elsewhere in its order is found again after some ten, and a second
  // reader of the same files makes half of all opens strays.
  static constexpr int kStraysMax = 40;

  std::vector<bool> told_;    // by sample; empty: all
  std::uint64_t strays_ = 0;  // one bit for each of the last 64 opens
};

// An epoch counter that runs away: two epochs went by in fewer opens than half of one has positions. Equal opens that
// follow each other are seen as one, so that repeated augmentation may show a third of its opens.
class EpochPace {
 public:
  [[nodiscard]] bool is_impossible(std::uint64_t epoch, std::uint64_t length, std::uint64_t opens) {
    if (epoch == entered_.epoch) return false;
    const bool goes_on = epoch > entered_.epoch && epoch - entered_.epoch <= 2;
    const bool two = goes_on && before_ && epoch >= before_->epoch + 2;
    const bool impossible = two && (opens - before_->opens) * 2 < std::min(before_->length, entered_.length);
    before_ = goes_on && entered_.is_whole ? std::optional(entered_) : std::nullopt;
    entered_ = {.epoch = epoch, .length = length, .opens = opens, .is_whole = goes_on};
    return impossible;
  }
  // The reader was moved: what it enters next is the first epoch that is counted.
  void restart(std::uint64_t epoch) {
    entered_ = {.epoch = epoch, .length = 0, .opens = 0, .is_whole = false};
    before_.reset();
  }

 private:
  struct Entry {
    std::uint64_t epoch = 0;
    std::uint64_t length = 0;
    std::uint64_t opens = 0;  // by then
    bool is_whole = false;    // entered from the epoch before
  };
  Entry entered_;
  std::optional<Entry> before_;
};

}  // namespace headrace::fuse
