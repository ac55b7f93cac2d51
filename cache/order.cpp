// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order.h"

#include <algorithm>

namespace headrace::cache {

Result<std::vector<SampleIndex>> Order::prefix(std::uint64_t epoch_number, std::uint64_t count) const {
  Result<std::vector<SampleIndex>> whole = epoch(epoch_number);
  if (whole) whole->resize(std::min<std::uint64_t>(whole->size(), count));
  return whole;
}

}  // namespace headrace::cache
