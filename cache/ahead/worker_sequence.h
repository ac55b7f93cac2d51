// SPDX-License-Identifier: Apache-2.0
// The sequence in which a loader's worker processes open the positions of an epoch: W workers each go through a batch
// of their own at the same time, so that the first samples of W batches are opened before any second one.
//
//   WorkerSequence sequence(length, order.workers());
//   next_opened = epoch[sequence.position_of(step)];
//
// Real workers drift apart by up to prefetch_factor batches each; this is the middle of what they do. What one worker
// of one rank opens, its lane, is exact: one batch after the other, each from its first sample to its last.
// Thread-safety: immutable.
#pragma once

#include <cstdint>
#include <optional>

#include "headrace/cache/order.h"

namespace headrace::cache {

class WorkerSequence {
 public:
  WorkerSequence(std::uint64_t length, const WorkerLayout& layout);

  [[nodiscard]] std::uint64_t position_of(std::uint64_t step) const;
  [[nodiscard]] std::uint64_t step_of(std::uint64_t position) const;  // the inverse
  // The first position, and step, of the group of batches that `position` is in; and the one behind the group.
  [[nodiscard]] std::uint64_t group_begin(std::uint64_t position) const;
  [[nodiscard]] std::uint64_t group_end(std::uint64_t position) const;

  [[nodiscard]] std::uint64_t lanes() const { return ranks_ * workers_; }
  [[nodiscard]] std::uint64_t rank_of(std::uint64_t step) const { return position_of(step) % ranks_; }
  // Below lanes().
  [[nodiscard]] std::uint64_t lane_of(std::uint64_t step) const;
  // The first step from `step` on that is in the lane; nullopt: there is none in the rest of the epoch.
  [[nodiscard]] std::optional<std::uint64_t> first_in_lane(std::uint64_t step, std::uint64_t lane) const;
  // The step of the same lane after this one.
  [[nodiscard]] std::optional<std::uint64_t> next_in_lane(std::uint64_t step) const;

 private:
  // The batches that are worked on together; the last group of an epoch may be short.
  struct Group {
    std::uint64_t first = 0;       // position, and step, where it begins
    std::uint64_t batches = 0;     // in it
    std::uint64_t last_batch = 0;  // positions in its last batch
  };
  [[nodiscard]] Group group_at(std::uint64_t step_or_position) const;

  std::uint64_t length_;
  std::uint64_t ranks_;
  std::uint64_t workers_;  // of one rank
  std::uint64_t batch_;    // positions, of all ranks
  std::uint64_t group_;    // positions in a whole group: one batch for each worker
};

}  // namespace headrace::cache
