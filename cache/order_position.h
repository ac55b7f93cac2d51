// SPDX-License-Identifier: Apache-2.0
// An order and where its reader is in it.
// Thread-safety: as a plain value; the order is shared and immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

struct OrderPosition {
  std::shared_ptr<const Order> order;  // null: unknown
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t epoch_count = UINT64_MAX;      // from `epoch` on; what comes later is not known
  std::vector<SampleIndex> read_already = {};  // opens from `position` on, in their order
  bool may_be_wrong = false;                   // somebody said so: it is given up where the opens contradict it
  // An order over several sets (cache::PassOrder): `epoch` is that of each set.
};

}  // namespace headrace::cache
