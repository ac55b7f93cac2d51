// SPDX-License-Identifier: Apache-2.0
// Whether S3-FIFO pays where no order is known: never-evict and S3-FIFO are both tried on paper, on what is read.
//
//   PolicyTrial trial(sizes, rooms, on_evict);
//   trial.read(sample);
//   if (trial.prefers_s3_fifo()) ...   // trial.s3_fifo() says what is to be held
//
// A job that reads all its files once per epoch, in whatever order, hits most under never-evict, which writes nothing
// once the tiers are full. Where some files are read far more often than others, or other files than before, S3-FIFO
// hits more, and writes for it. Which of the two it is shows only in the reads.
//
// Memory: 14 bytes per sample and tier. Thread-safety: none; one owner. Ownership: the sizes outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headrace/cache/keep/policy_stack.h"

namespace headrace::cache {

// What a tier may hold: all of its budget, or less where records are evicted one by one.
struct TierRoom {
  std::uint64_t budget_bytes = 0;
  std::uint64_t evicting_bytes = 0;
};

class PolicyTrial {
 public:
  // `on_evict`: S3-FIFO lets go of a sample.
  PolicyTrial(std::span<const std::uint32_t> sizes, const std::vector<TierRoom>& rooms,
              const std::function<void(std::size_t tier, SampleIndex sample)>& on_evict);

  void read(SampleIndex sample);
  [[nodiscard]] bool prefers_s3_fifo() const { return prefers_s3_fifo_; }
  [[nodiscard]] PolicyStack& s3_fifo() { return s3_fifo_; }

 private:
  void judge();

  const std::uint64_t reads_per_round_;
  PolicyStack never_evict_;
  PolicyStack s3_fifo_;
  bool prefers_s3_fifo_ = false;

  // Of the round under way.
  std::uint64_t reads_ = 0;
  std::uint64_t never_evict_hits_ = 0;
  std::uint64_t s3_fifo_hits_ = 0;
};

}  // namespace headrace::cache
