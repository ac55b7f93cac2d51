// SPDX-License-Identifier: Apache-2.0
// While others wait for memory, a range is read from the source alone, without the chunks that it lies in.
//
//   if (is_lean(store, span)) return read_lean(store, span, done);
//
// With more streams than chunks fit in memory, each chunk would have to go before its reader comes back for the next
// range, and be fetched again then. A range takes a part of the memory, so that more reads go on at one time.
#pragma once

#include "headrace/cache/store/gathered_read.h"

namespace headrace::cache {

// A read for now of a range that neither memory nor a disk tier has, while others wait for memory.
[[nodiscard]] bool is_lean(const StoreParts& store, const SpanRequest& request);
// The range stays in no tier. Errors: as read_chunk().
void read_lean(StoreParts& store, const SpanRequest& request, ReadCallback done);

}  // namespace headrace::cache
