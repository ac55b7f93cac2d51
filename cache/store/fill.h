// SPDX-License-Identifier: Apache-2.0
// Ensures that a place beyond memory holds a file, chunk after chunk: disk tiers, or the peer that is to hold it.
//
//   fill_disk_tiers(store, entry, identity, [](Status status) { ... });
//
// `done` runs once all chunks are held, or with why not: kStale where the file changes again and again, else as
// read_chunk() and as below.
#pragma once

#include <functional>

#include "headrace/cache/store/store_parts.h"

namespace headrace::cache {

// Errors: kNoSpace where no tier takes a chunk.
void fill_disk_tiers(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done);
// Errors: kNotFound where no peer is to hold it; kBusy where its peer does not answer; as StoreParts::share().
void fill_peer(StoreParts& store, EntryId entry, const Identity& identity, std::function<void(Status)> done);

}  // namespace headrace::cache
