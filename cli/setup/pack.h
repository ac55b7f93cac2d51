// SPDX-License-Identifier: Apache-2.0
// The packed file of a data set, and where its records lie.
//
//   auto pack = open_pack(source, catalog, "auto");
//   auto order = open_record_order("torch-random:seed=42", pack->map);
//
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"
#include "headrace/cache/record_map.h"
#include "headrace/cli/setup/data_set.h"

namespace headrace::cli {

struct Pack {
  std::string path;  // relative to the source
  cache::RecordMap map;
};

// The one file that has records. `records`: as open_record_map() takes it.
// Errors: kInvalidArgument (there is none, or several; the source is a bucket), those of open_record_map().
[[nodiscard]] io::Result<Pack> open_pack(const Source& source, const cache::Catalog& catalog,
                                         const std::string& records);

// Errors: as cache::make_order().
[[nodiscard]] io::Result<std::unique_ptr<cache::Order>> open_record_order(std::string_view spec,
                                                                          const cache::RecordMap& map, ListFiles lists);

}  // namespace headrace::cli
