// SPDX-License-Identifier: Apache-2.0
// How much better than chance a candidate order explains the opens of an epoch.
//
//   OpenSet opens;
//   opens.add(sample);
//   if (start_bits(opens, first_few, n) > kStartBits) certainty = fit_of(opens, many, n).bits;
//
// Loaders open an epoch as an interleaving of streams (ranks x workers), each of which runs along the order in steps of
// the number of ranks. So the samples opened have neighbours at a fixed stride in the true order, whatever the batch
// size, the number of workers or the point where the epoch was entered; in any other order they lie at random.
// Thread-safety: none needed, values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

// The first distinct opens of an epoch, in order, with a fast membership test.
class OpenSet {
 public:
  // 4096: the window of most loaders (ranks x workers x prefetch x batch) is reached; the table stays in the L2 cache.
  static constexpr std::size_t kMost = 4096;

  OpenSet();
  // False when it is known already or the set is full.
  bool add(SampleIndex sample);
  [[nodiscard]] bool contains(SampleIndex sample) const { return slots_[slot_of(sample)] != 0; }
  // Which open it was, from 0; contains(sample) must hold.
  [[nodiscard]] std::size_t arrival(SampleIndex sample) const { return slots_[slot_of(sample)] - std::size_t{1}; }
  [[nodiscard]] std::size_t size() const { return samples_.size(); }
  [[nodiscard]] bool full() const { return samples_.size() == kMost; }
  [[nodiscard]] const std::vector<SampleIndex>& samples() const { return samples_; }
  void clear();

 private:
  [[nodiscard]] std::size_t slot_of(SampleIndex sample) const;

  std::vector<SampleIndex> samples_;
  std::vector<std::uint16_t> slots_;  // index into samples_ + 1; 0: empty
};

// For the first elements of a candidate: many of them opened speaks for an epoch that began there. A quick filter.
[[nodiscard]] double start_bits(const OpenSet& opens, std::span<const SampleIndex> order, std::uint64_t n);
inline constexpr std::size_t kStartElements = 256;  // covers the ranks of a node times a few samples each
// One in 600 wrong candidates passes; the true one has 16 bits and more from two dozen opens of 16 workers on.
inline constexpr double kStartBits = 12;

// Numbers of ranks in use, ascending: all small ones, then whole nodes of 8.
[[nodiscard]] const std::vector<std::uint64_t>& usual_strides();

struct Fit {
  double bits = 0;            // -log2 of the probability of so many neighbours, opened in such a sequence, by chance
  std::uint64_t stride = 1;   // at which the neighbours lie: the number of ranks, or 1 where all of them read here
  double direction_bits = 0;  // -log2 of the probability that so many came after the neighbour before them by chance
  std::vector<std::uint64_t> positions = {};  // of the opened samples, ascending
};
// Whether the positions, nine of ten of them, are one reading and not blocks from all over: a listing is no random
// order, so that whoever reads a few neighbours at a time shares pairs with it.
[[nodiscard]] bool is_one_stretch(const Fit& fit, std::uint64_t n);
[[nodiscard]] Fit fit_of(const OpenSet& opens, std::span<const SampleIndex> order, std::uint64_t n);

// What a lock needs, by how many candidates are tried: so many, times 2^6 strides, times a margin of 2^30 against a
// wrong lock.
inline constexpr double kSeedSearchBits = 72;  // 2^32 seeds, several ranks and generators
inline constexpr double kUsualBits = 52;       // 2^14 usual seeds, records, outputs of a generator
inline constexpr double kPredictionBits = 42;  // 2^5 epochs that may follow the order before
// For orders that are no random permutation (the listing, a record): samples that are drawn more often may lie side by
// side in them, so that neighbours prove nothing. Readers in order also open them one after the other.
inline constexpr double kDirectionBits = 32;

}  // namespace headrace::cache
