// SPDX-License-Identifier: Apache-2.0
// An order over the records of packs, of which each may be several rows.
//
//   HEADRACE_TRY(order, make_record_order("torch-random:seed=42", set, true));
//
// Thread-safety: as Order. Ownership: shares the set.
#pragma once

#include <memory>
#include <string_view>

#include "headrace/cache/order.h"
#include "headrace/cache/record_set.h"
#include "headrace/io/result.h"

namespace headrace::cache {

// The order of the records for a reader whose order is over the rows. A record of which several rows are read in a row
// is there once.
// Errors: as make_order().
[[nodiscard]] io::Result<std::unique_ptr<Order>> make_record_order(std::string_view spec,
                                                                   const std::shared_ptr<const RecordSet>& set,
                                                                   bool regular_files_only);

}  // namespace headrace::cache
