// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/sample_queues.h"
#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

constexpr std::uint8_t kQueue = 0;

class LruPolicy final : public Policy {
 public:
  explicit LruPolicy(const PolicyOptions& options) : Policy(options), queue_(options.sizes, 1) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override { return queue_.queue_of(sample) == kQueue; }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    if (holds(sample)) {
      queue_.remove(sample);
      queue_.push_front(kQueue, sample);
      return true;
    }
    if (!can_ever_fit(sample)) return false;
    while (!fits(sample)) evict();
    take_in(sample);
    queue_.push_front(kQueue, sample);
    return false;
  }

 private:
  void evict() {
    const SampleIndex oldest = queue_.back(kQueue);
    queue_.remove(oldest);
    let_go(oldest);
  }

  SampleQueues queue_;
};

}  // namespace

std::unique_ptr<Policy> make_lru(const PolicyOptions& options) {
  return std::make_unique<LruPolicy>(options);
}

}  // namespace headrace::cache
