// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/renumbered_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "headrace/cache/same_entries.h"

namespace headrace::cache {
namespace {

class RenumberedOrder final : public Order {
 public:
  RenumberedOrder(std::shared_ptr<const Order> order, std::vector<SampleIndex> numbers)
      : order_(std::move(order)), numbers_(std::move(numbers)) {}

  [[nodiscard]] const std::string& spec() const override { return order_->spec(); }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override { return order_->length(epoch); }
  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    return renumber(order_->epoch(epoch));
  }
  [[nodiscard]] Result<std::vector<SampleIndex>> prefix(std::uint64_t epoch, std::uint64_t count) const override {
    return renumber(order_->prefix(epoch, count));
  }
  [[nodiscard]] WorkerLayout workers() const override { return order_->workers(); }

 private:
  [[nodiscard]] Result<std::vector<SampleIndex>> renumber(Result<std::vector<SampleIndex>> samples) const {
    if (!samples) return samples;
    for (SampleIndex& sample : *samples) sample = numbers_[sample];
    return samples;
  }

  const std::shared_ptr<const Order> order_;
  const std::vector<SampleIndex> numbers_;
};

}  // namespace

std::vector<SampleIndex> new_numbers(const Catalog& before, const Catalog& now) {
  const std::vector<EntryId> same = same_entries(before, now);
  std::vector<SampleIndex> numbers(before.sample_count(), kNoSample);
  for (SampleIndex sample = 0; sample < now.sample_count(); ++sample) {
    const EntryId was = same[now.sample_entry(sample)];
    const auto number = was == kNoEntry ? std::nullopt : before.sample_of(was);
    if (number) numbers[*number] = sample;
  }
  if (std::ranges::find(numbers, kNoSample) != numbers.end()) numbers.clear();
  return numbers;
}

std::shared_ptr<const Order> renumber_order(std::shared_ptr<const Order> order, std::vector<SampleIndex> numbers) {
  return std::make_shared<const RenumberedOrder>(std::move(order), std::move(numbers));
}

}  // namespace headrace::cache
