// SPDX-License-Identifier: Apache-2.0
// Ensures that disk tiers hold a file, chunk after chunk.
//
//   fill_disk_tiers(store, entry, identity, [](Status status) { ... });
#pragma once

#include <functional>

#include "headrace/cache/store/store_parts.h"

namespace headrace::cache {

// `done` runs once all chunks are held, or with why not: kNoSpace where no tier takes one, else as read_chunk().
void fill_disk_tiers(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done);

}  // namespace headrace::cache
