// SPDX-License-Identifier: Apache-2.0
// What a mount does with the opens it sees, without the mount: learns the order and reads ahead along it, from a source
// that is fast enough on average but takes its time for each sample.
//
//   ReplayMount mount({.samples = n, .budget_samples = n / 2});
//   for (SampleIndex sample : opens) mount.on_open(sample);
//   CHECK(mount.share_fetched() >= 0.99);   // of the opens since the order is known
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "headrace/cache/order_learner.h"
#include "headrace/cache/read_ahead.h"

namespace headrace::test {

struct ReplayMountOptions {
  std::uint64_t samples = 0;
  std::uint64_t budget_samples = 0;
  cache::OrderLearnerOptions learner = {};  // its sample_count is set
  std::uint64_t latency_opens = 32;         // opens that pass until a fetch lands
  std::size_t fetches_at_once = 128;        // as many as the mount's pusher has
};

class ReplayMount {
 public:
  explicit ReplayMount(ReplayMountOptions options);

  // Waits until the learner has thought about it.
  void on_open(cache::SampleIndex sample);

  [[nodiscard]] std::uint64_t opens_under_lock() const { return opens_under_lock_; }
  [[nodiscard]] double share_fetched() const;
  [[nodiscard]] cache::OrderLearner& learner() { return learner_; }

 private:
  struct Fetch {
    cache::SampleIndex sample = 0;
    std::uint64_t lands_at = 0;  // number of the open
  };
  void land();
  void follow();
  void fetch();
  void drop_released();

  const ReplayMountOptions options_;
  const cache::SampleSizes sizes_;
  cache::OrderLearner learner_;
  std::uint64_t generation_ = 0;
  std::shared_ptr<const cache::Order> order_;
  std::unique_ptr<cache::ReadAhead> plan_;
  std::vector<bool> held_;
  std::deque<Fetch> in_flight_;
  std::uint64_t opens_ = 0;
  std::uint64_t opens_under_lock_ = 0;
  std::uint64_t found_ = 0;
};

}  // namespace headrace::test
