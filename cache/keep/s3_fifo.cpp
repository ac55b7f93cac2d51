// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 of "FIFO queues are all you need for cache eviction" (Yang et al., SOSP 2023), with bytes for objects.
#include <algorithm>

#include "headrace/cache/keep/sample_queues.h"
#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

constexpr std::uint8_t kSmall = 0;
constexpr std::uint8_t kMain = 1;
constexpr std::uint8_t kGhost = 2;
constexpr std::uint64_t kSmallPart = 10;  // the paper's tenth
constexpr std::uint8_t kFrequencyMax = 3;

class S3FifoPolicy final : public Policy {
 public:
  explicit S3FifoPolicy(const PolicyOptions& options)
      : Policy(options),
        small_max_(capacity_bytes() / kSmallPart),
        ghost_max_(capacity_bytes() - small_max_),
        queues_(options.sizes, 3),
        frequency_(sample_count(), 0) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override {
    const std::uint8_t where = queues_.queue_of(sample);
    return where == kSmall || where == kMain;
  }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    if (holds(sample)) {
      frequency_[sample] = std::min<std::uint8_t>(frequency_[sample] + 1, kFrequencyMax);
      return true;
    }
    if (!can_ever_fit(sample)) return false;
    while (!fits(sample)) evict();
    take_in(sample);
    // Looked up again: making room may have pushed the sample out of the ghosts.
    const bool was_ghost = queues_.queue_of(sample) == kGhost;
    if (was_ghost) queues_.remove(sample);
    queues_.push_front(was_ghost ? kMain : kSmall, sample);
    frequency_[sample] = 0;
    return false;
  }

 private:
  void evict() {
    if (queues_.bytes(kSmall) >= small_max_ && !queues_.empty(kSmall)) return evict_small();
    queues_.empty(kMain) ? evict_small() : evict_main();
  }

  void evict_small() {
    while (!queues_.empty(kSmall)) {
      const SampleIndex oldest = queues_.back(kSmall);
      queues_.remove(oldest);
      if (frequency_[oldest] > 1) {
        queues_.push_front(kMain, oldest);
        frequency_[oldest] = 0;
        continue;
      }
      queues_.push_front(kGhost, oldest);
      let_go(oldest);
      while (queues_.bytes(kGhost) > ghost_max_) queues_.remove(queues_.back(kGhost));
      return;
    }
  }

  void evict_main() {
    while (true) {
      const SampleIndex oldest = queues_.back(kMain);
      queues_.remove(oldest);
      if (frequency_[oldest] == 0) return let_go(oldest);
      --frequency_[oldest];
      queues_.push_front(kMain, oldest);
    }
  }

  const std::uint64_t small_max_;
  const std::uint64_t ghost_max_;  // as many bytes of names as main holds of content
  SampleQueues queues_;
  std::vector<std::uint8_t> frequency_;
};

}  // namespace

std::unique_ptr<Policy> make_s3_fifo(const PolicyOptions& options) {
  return std::make_unique<S3FifoPolicy>(options);
}

}  // namespace headrace::cache
