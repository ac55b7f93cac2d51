// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

class NeverEvictPolicy final : public Policy {
 public:
  explicit NeverEvictPolicy(const PolicyOptions& options) : Policy(options), held_(sample_count(), false) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override { return held_[sample]; }

  bool read(const Access& access) override {
    if (holds(access.sample)) return true;
    if (!fits(access.sample)) return false;
    take_in(access.sample);
    held_[access.sample] = true;
    return false;
  }

 private:
  std::vector<bool> held_;
};

}  // namespace

std::unique_ptr<Policy> make_never_evict(const PolicyOptions& options) {
  return std::make_unique<NeverEvictPolicy>(options);
}

}  // namespace headrace::cache
