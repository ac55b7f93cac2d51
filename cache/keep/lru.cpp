// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/item_queue.h"
#include "headrace/cache/keep/sample_items.h"
#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

class LruPolicy final : public Policy {
 public:
  explicit LruPolicy(const PolicyOptions& options)
      : Policy(options), items_(options.sizes), held_(sample_count(), false) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override { return held_[sample]; }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    if (holds(sample)) {
      queue_.move_to_front(items_, sample);
      return true;
    }
    if (!can_ever_fit(sample)) return false;
    while (!fits(sample)) evict();
    take_in(sample);
    held_[sample] = true;
    queue_.push_front(items_, sample);
    return false;
  }

 private:
  void evict() {
    const SampleIndex oldest = queue_.back();
    queue_.remove(items_, oldest);
    held_[oldest] = false;
    let_go(oldest);
  }

  SampleItems items_;
  ItemQueue<SampleItems> queue_;
  std::vector<bool> held_;
};

}  // namespace

std::unique_ptr<Policy> make_lru(const PolicyOptions& options) {
  return std::make_unique<LruPolicy>(options);
}

}  // namespace headrace::cache
