// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(const PolicyOptions& options)
      : Policy(options), place_(sample_count(), kNoSample), random_(options.seed) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override { return place_[sample] != kNoSample; }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    if (holds(sample)) return true;
    if (!can_ever_fit(sample)) return false;
    while (!fits(sample)) evict();
    take_in(sample);
    place_[sample] = static_cast<SampleIndex>(held_.size());
    held_.push_back(sample);
    return false;
  }

 private:
  void evict() {
    const std::size_t chosen = random_() % held_.size();
    const SampleIndex victim = held_[chosen];
    held_[chosen] = held_.back();
    place_[held_[chosen]] = static_cast<SampleIndex>(chosen);
    held_.pop_back();
    place_[victim] = kNoSample;
    let_go(victim);
  }

  std::vector<SampleIndex> held_;
  std::vector<SampleIndex> place_;  // in held_; kNoSample: not held
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<Policy> make_random(const PolicyOptions& options) {
  return std::make_unique<RandomPolicy>(options);
}

}  // namespace headrace::cache
