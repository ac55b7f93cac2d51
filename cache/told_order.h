// SPDX-License-Identifier: Apache-2.0
// An order that somebody tells, an epoch at a time, because no spec describes it: the draws of an unseeded sampler.
//
//   auto order = std::make_shared<ToldOrder>("train", WorkerLayout{.batch = 256, .workers = 8});
//   const std::uint64_t epoch = order->add_epoch(samples);   // 0, then 1, ...
//   read_ahead.seek(epoch, 0);                               // whoever goes along it hears of each epoch
//
// Thread-safety: every function from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class ToldOrder final : public Order {
 public:
  // `name`: of who tells; the spec is "told:NAME", which make_order() does not take.
  ToldOrder(const std::string& name, const WorkerLayout& workers);

  // The next epoch; returns its number. The one before is kept beside it, older ones are forgotten.
  std::uint64_t add_epoch(std::vector<SampleIndex> samples);

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  // 0: it is not told, or forgotten.
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override;
  // Errors: kNotFound (not told yet, or forgotten).
  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override;
  [[nodiscard]] WorkerLayout workers() const override { return workers_; }

 private:
  using Samples = std::shared_ptr<const std::vector<SampleIndex>>;
  [[nodiscard]] Samples find(std::uint64_t epoch) const;

  const std::string spec_;
  const WorkerLayout workers_;

  mutable io::Mutex mutex_;
  std::uint64_t told_ HEADRACE_GUARDED_BY(mutex_) = 0;  // epochs
  Samples latest_ HEADRACE_GUARDED_BY(mutex_);          // number told_ - 1
  Samples before_ HEADRACE_GUARDED_BY(mutex_);          // number told_ - 2
};

}  // namespace headrace::cache
