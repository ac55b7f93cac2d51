// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/renumbered_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "headrace/cache/order/mapped_order.h"
#include "headrace/cache/same_entries.h"

namespace headrace::cache {

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
  std::string spec = order->spec();
  auto indices = std::make_shared<const std::vector<SampleIndex>>(std::move(numbers));
  return std::make_shared<const MappedOrder>(std::move(spec), std::move(indices), std::move(order));
}

}  // namespace headrace::cache
