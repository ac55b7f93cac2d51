// SPDX-License-Identifier: Apache-2.0
// The policies of several tiers, fastest first: what one tier takes in, the slower ones are not offered.
//
//   PolicyStack stack;
//   stack.add(make_policy(PolicyKind::kMin, {.capacity_bytes = 1 << 30, .sizes = sizes}));
//   if (stack.read({.sample = 7, .next_use = 1234, .now = 1000}) == PolicyStack::kNowhere) ++source_reads;
//
// Thread-safety: none; one owner.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "headrace/cache/policy.h"

namespace headrace::cache {

class PolicyStack {
 public:
  static constexpr std::size_t kNowhere = SIZE_MAX;

  void add(std::unique_ptr<Policy> policy) { policies_.push_back(std::move(policy)); }
  [[nodiscard]] std::size_t size() const { return policies_.size(); }
  [[nodiscard]] Policy& operator[](std::size_t tier) { return *policies_[tier]; }
  [[nodiscard]] const Policy& operator[](std::size_t tier) const { return *policies_[tier]; }

  // The tier that held the sample, or kNowhere; then one of them may hold it from now on.
  std::size_t read(const Access& access) {
    bool taken_in = false;  // by one tier: the slower ones need not have it, too
    for (std::size_t tier = 0; tier < policies_.size(); ++tier) {
      Policy& policy = *policies_[tier];
      if (taken_in && !policy.holds(access.sample)) continue;
      if (policy.read(access)) return tier;
      taken_in = taken_in || policy.holds(access.sample);
    }
    return kNowhere;
  }

 private:
  std::vector<std::unique_ptr<Policy>> policies_;
};

}  // namespace headrace::cache
