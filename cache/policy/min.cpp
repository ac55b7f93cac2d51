// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <utility>

#include "headrace/cache/policy/policy.h"

namespace headrace::cache {
namespace {

class MinPolicy final : public Policy {
 public:
  explicit MinPolicy(const PolicyOptions& options) : Policy(options), next_use_(sample_count(), kNotHeld) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override { return next_use_[sample] != kNotHeld; }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    if (holds(sample)) {
      remove(sample);
      insert(access);
      return true;
    }
    if (can_ever_fit(sample) && make_room(access)) {
      take_in(sample);
      insert(access);
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kNotHeld = kNeverUsed - 1;

  void insert(const Access& access) {
    next_use_[access.sample] = access.next_use;
    by_next_use_.insert({access.next_use, access.sample});
  }

  void remove(SampleIndex sample) {
    by_next_use_.erase({next_use_[sample], sample});
    next_use_[sample] = kNotHeld;
  }

  // False, and nothing changed, when that would cost a sample needed sooner than the new one.
  bool make_room(const Access& access) {
    if (access.next_use == kNeverUsed) return false;
    std::uint64_t free_bytes = capacity_bytes() - used_bytes();
    std::size_t victims = 0;
    for (auto last = by_next_use_.rbegin(); free_bytes < size_of(access.sample); ++last, ++victims) {
      if (last == by_next_use_.rend() || last->first <= access.next_use) return false;
      free_bytes += size_of(last->second);
    }
    for (; victims > 0; --victims) {
      const SampleIndex victim = by_next_use_.rbegin()->second;
      remove(victim);
      let_go(victim);
    }
    return true;
  }

  std::vector<std::uint64_t> next_use_;  // by sample
  std::set<std::pair<std::uint64_t, SampleIndex>> by_next_use_;
};

}  // namespace

std::unique_ptr<Policy> make_min(const PolicyOptions& options) {
  return std::make_unique<MinPolicy>(options);
}

}  // namespace headrace::cache
