// SPDX-License-Identifier: Apache-2.0
// What an epoch has read, and whether the epochs after it read that and nothing else: a data set may have files that a
// job never opens.
//
//   LearnedSet set(sample_count);
//   set.learn(opens);                 // an epoch has turned
//   set.on_open(sample);              // each one after it
//   if (set.is_believed()) ...        // only what is in set.samples() will be read
//
// That an epoch has turned proves nothing: where two jobs read in turn, or each epoch draws anew (repeated
// augmentation, with replacement), what was read until then is any part of the data set. So it is believed once the
// opens after it lie within it, far more of them than chance would have there. Two epochs in a row that read the same
// are proof, too: a set that lacks a few samples of many gets no other.
//
// Pure: no threads, no I/O, no clock. Thread-safety: none. Memory: 5 bytes per sample at most.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/cache/order/mapped_order.h"

namespace headrace::cache {

class LearnedSet {
 public:
  explicit LearnedSet(std::uint64_t sample_count) : has_(sample_count) {}

  // `read`: each sample once. A belief outlives the turn, until the opens contradict it.
  void learn(const std::vector<SampleIndex>& read);
  void on_open(SampleIndex sample);

  [[nodiscard]] const Indices& samples() const { return samples_; }  // as they were read; null: no epoch has turned
  [[nodiscard]] bool contains(SampleIndex sample) const { return has_[sample]; }
  [[nodiscard]] bool is_believed() const { return is_believed_; }
  // Once after each turn, when its set has been confirmed: all that is not in it.
  [[nodiscard]] std::vector<SampleIndex> take_left_out();

 private:
  [[nodiscard]] bool is_same(const std::vector<SampleIndex>& read) const;

  Indices samples_;
  std::vector<bool> has_;
  double bits_ = 0;         // log2 of how much better "all of the set, but for strays" explains the opens than chance
  double bits_inside_ = 0;  // that an open within the set adds
  bool is_believed_ = false;
  bool is_confirmed_ = false;  // since the last turn
  bool was_taken_ = false;
};

}  // namespace headrace::cache
