// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/s3_fifo.h"

#include "headrace/cache/keep/sample_items.h"
#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

// The RAM tier's S3-FIFO in one shard, with nothing pinned.
class S3FifoPolicy final : public Policy {
 public:
  explicit S3FifoPolicy(const PolicyOptions& options)
      : Policy(options), items_(options.sizes), fifo_(ghost_slots_for(options.capacity_bytes)) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override {
    return items_.mark(sample).queue != S3FifoQueue::kNone;
  }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    if (holds(sample)) {
      S3Fifo<SampleItems>::touch(items_.mark(sample));
      return true;
    }
    if (!can_ever_fit(sample)) return false;
    while (!fits(sample)) let_go(fifo_.evict(items_));
    take_in(sample);
    fifo_.insert(items_, sample);
    return false;
  }

 private:
  SampleItems items_;
  S3Fifo<SampleItems> fifo_;
};

}  // namespace

std::unique_ptr<Policy> make_s3_fifo(const PolicyOptions& options) {
  return std::make_unique<S3FifoPolicy>(options);
}

}  // namespace headrace::cache
