// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/sample_queues.h"
#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

constexpr std::uint8_t kQueue = 0;

class SievePolicy final : public Policy {
 public:
  explicit SievePolicy(const PolicyOptions& options)
      : Policy(options), queue_(options.sizes, 1), visited_(sample_count(), false) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override { return queue_.queue_of(sample) == kQueue; }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    if (holds(sample)) {
      visited_[sample] = true;
      return true;
    }
    if (!can_ever_fit(sample)) return false;
    while (!fits(sample)) evict();
    take_in(sample);
    queue_.push_front(kQueue, sample);
    visited_[sample] = false;
    return false;
  }

 private:
  // The hand goes from the oldest to the newest and starts again; what was read since it last came by is spared once.
  void evict() {
    SampleIndex victim = hand_ != kNoSample ? hand_ : queue_.back(kQueue);
    while (visited_[victim]) {
      visited_[victim] = false;
      victim = queue_.before(victim);
      if (victim == kNoSample) victim = queue_.back(kQueue);
    }
    hand_ = queue_.before(victim);
    queue_.remove(victim);
    let_go(victim);
  }

  SampleQueues queue_;
  std::vector<bool> visited_;
  SampleIndex hand_ = kNoSample;  // the next to be looked at; kNoSample: the oldest
};

}  // namespace

std::unique_ptr<Policy> make_sieve(const PolicyOptions& options) {
  return std::make_unique<SievePolicy>(options);
}

}  // namespace headrace::cache
