// SPDX-License-Identifier: Apache-2.0
// An order over the records of a pack, of which each may be several rows.
//
//   HEADRACE_TRY(order, make_record_order("torch-random:seed=42", map, true));
//
// Thread-safety: as Order. Ownership: what is made does not need the map.
#pragma once

#include <memory>
#include <string_view>

#include "headrace/cache/order.h"
#include "headrace/cache/record_map.h"
#include "headrace/io/result.h"

namespace headrace::cache {

// The order of the records for a reader whose order is over the rows. A record of which several rows are read in a row
// is there once.
// Errors: as make_order().
[[nodiscard]] io::Result<std::unique_ptr<Order>> make_record_order(std::string_view spec, const RecordMap& map,
                                                                   bool regular_files_only);

}  // namespace headrace::cache
