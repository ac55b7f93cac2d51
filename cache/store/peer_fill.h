// SPDX-License-Identifier: Apache-2.0
// Ensures that the peer that is to hold a file has it, chunk after chunk.
//
//   fill_peer(store, entry, identity, [](Status status) { ... });
#pragma once

#include <functional>

#include "headrace/cache/store/store_parts.h"

namespace headrace::cache {

// `done` runs once the peer has all chunks, or with why not: as Store::share(), else as read_chunk().
void fill_peer(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done);

}  // namespace headrace::cache
