// SPDX-License-Identifier: Apache-2.0
// Asks the source whether a file is still the version that a saved catalog says. A folder's mtime tells nothing of a
// file that was written in place while nobody looked, and a record on a disk would be of what was there before.
//
//   if (!store.identities.is_confirmed(entry)) confirm(store, entry, identity, false, [](Status status) { ... });
//
// Thread-safety: every function from any thread.
#pragma once

#include <functional>

#include "headrace/cache/store/store_parts.h"

namespace headrace::cache {

// One open and one look at the file, no byte of it. `here`: the calling thread may wait for the source. `done` runs
// before this returns then, and where the answer needs no waiting; else on the source's I/O thread. Errors: kStale
// without an os_errno (another version), else as SourceRead.
void confirm(StoreParts& store, EntryId entry, const Identity& identity, bool here, std::function<void(Status)> done);

}  // namespace headrace::cache
