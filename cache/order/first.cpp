// SPDX-License-Identifier: Apache-2.0
// first: the beginning of each epoch of another order, where a script breaks its loop off (Lightning's
// limit_train_batches, Keras's steps_per_epoch).
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "headrace/cache/order/families.h"

namespace headrace::cache {
namespace {

class FirstOrder final : public Order {
 public:
  FirstOrder(std::string spec, std::uint64_t samples, std::unique_ptr<Order> whole)
      : spec_(std::move(spec)), samples_(samples), whole_(std::move(whole)) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override {
    return std::min(samples_, whole_->length(epoch));
  }
  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    return whole_->prefix(epoch, samples_);
  }
  [[nodiscard]] Result<std::vector<SampleIndex>> prefix(std::uint64_t epoch, std::uint64_t count) const override {
    return whole_->prefix(epoch, std::min(samples_, count));
  }
  [[nodiscard]] WorkerLayout workers() const override { return whole_->workers(); }

 private:
  const std::string spec_;
  const std::uint64_t samples_;
  const std::unique_ptr<const Order> whole_;
};

}  // namespace

OrderResult make_first(Parameters& parameters, const OrderInput& input) {
  const std::uint64_t samples = parameters.integer("samples", 0, {.least = 1});
  const std::optional<std::string> whole_spec = parameters.text("of");
  if (samples == 0 || !whole_spec) parameters.fail("samples=COUNT and of=SPEC (last) are needed");
  HEADRACE_TRY_DO(parameters.finish());
  OrderResult whole = make_order(*whole_spec, input);
  if (!whole) return whole;
  return std::make_unique<FirstOrder>(parameters.spec(), samples, std::move(*whole));
}

}  // namespace headrace::cache
