// SPDX-License-Identifier: Apache-2.0
// What is given to peers that talk in the clear. Every user of a machine reads what its memcached holds, so that files
// which other users may not read stay out of it.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

// Whether the modes of a file, and of the folders in the data set that it lies in, let every user read it. The source's
// own folder does not count: who mounts it may have a way there of their own.
[[nodiscard]] bool may_share_in_clear(const Catalog& catalog, EntryId entry);

// How many files are kept back so.
[[nodiscard]] std::uint64_t count_kept_back(const Catalog& catalog);

}  // namespace headrace::cache
