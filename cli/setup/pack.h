// SPDX-License-Identifier: Apache-2.0
// The packed files of a data set, and where their records lie.
//
//   HEADRACE_TRY(records, open_packs(source, catalog, "auto"));
//   HEADRACE_TRY(order, cache::make_record_order("torch-random:seed=42", records, true));
//
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <string>

#include "headrace/cache/catalog.h"
#include "headrace/cache/record_set.h"
#include "headrace/cli/setup/data_set.h"

namespace headrace::cli {

// All packs of one format, sorted by their paths: one sequence of records. `records`: as open_record_map() takes it.
// Errors: kInvalidArgument (there is none; packs of several formats; too many files; the source is a bucket), those of
// open_record_map() and of RecordSet::make().
[[nodiscard]] io::Result<std::shared_ptr<const cache::RecordSet>> open_packs(const Source& source,
                                                                             const cache::Catalog& catalog,
                                                                             const std::string& records);

}  // namespace headrace::cli
