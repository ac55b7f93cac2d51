// SPDX-License-Identifier: Apache-2.0
// Which entries of two catalogs are the same: of the source as it was, and as it is now.
//
//   std::vector<EntryId> same = same_entries(before, now);
//   if (same[entry] != kNoEntry) keep(before.path(same[entry]));   // entry: of `now`
//
// Thread-safety: pure function.
#pragma once

#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

// By entry of `now`: the one in `before` that has its path, and is a folder, a file or a symlink to the same target as
// well; kNoEntry: there was none. Files may hold other bytes.
[[nodiscard]] std::vector<EntryId> same_entries(const Catalog& before, const Catalog& now);

}  // namespace headrace::cache
