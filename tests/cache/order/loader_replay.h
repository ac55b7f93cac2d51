// SPDX-License-Identifier: Apache-2.0
// The opens that torch DataLoaders make, without the loaders: ranks x workers, each at a speed of its own.
//
//   for (SampleIndex sample : replay_epoch(lists_of_ranks, {.batch = 32, .workers = 2}, random)) ...
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::test {

struct ReplayLoader {
  std::size_t batch = 32;
  std::size_t workers = 2;
  std::size_t prefetch_factor = 2;
  bool drop_last = false;
  // Speeds of the ranks: from 1 - drift to 1 + drift, anew every 2000 opens. 0: equal on average. Where a training
  // synchronises its ranks they cannot drift; in a benchmark they do.
  double drift = 0;
};

// One rank: its workers take batches in turn, and never more than prefetch_factor * workers ahead of the training loop.
class ReplayRank {
 public:
  ReplayRank(std::vector<cache::SampleIndex> samples, ReplayLoader loader);
  [[nodiscard]] bool done() const { return opened_ == end_; }
  [[nodiscard]] std::size_t opens() const { return end_; }  // that it makes in all
  // Lets one worker that has work open its next sample.
  [[nodiscard]] cache::SampleIndex step(std::mt19937& random);

 private:
  struct Worker {
    std::deque<std::size_t> batches;
    std::size_t inside = 0;  // samples of the first one opened so far
  };
  void send_batch();
  [[nodiscard]] std::size_t batch_size(std::size_t batch) const;

  std::vector<cache::SampleIndex> samples_;
  ReplayLoader loader_;
  std::size_t end_;
  std::size_t opened_ = 0;
  std::size_t sent_ = 0;
  std::size_t returned_ = 0;
  std::vector<bool> arrived_;
  std::vector<Worker> workers_;
};

// All ranks of the node together, until each has read its list.
[[nodiscard]] std::vector<cache::SampleIndex> replay_epoch(const std::vector<std::vector<cache::SampleIndex>>& lists,
                                                           ReplayLoader loader, std::mt19937& random);

}  // namespace headrace::test
