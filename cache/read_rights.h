// SPDX-License-Identifier: Apache-2.0
// Whether whoever was let in by one mode and owner of a file may go on under another one.
//
//   if (!lets_in_all(now, before)) return stale();   // he has to be let in anew
//
// Thread-safety: pure.
#pragma once

#include <sys/types.h>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

// Whether everybody who might read a file before may read it now.
[[nodiscard]] constexpr bool lets_in_all(const AttributeClass& now, const AttributeClass& before) {
  constexpr mode_t kReadBits = 0444;
  return now.uid == before.uid && now.gid == before.gid && (before.mode & ~now.mode & kReadBits) == 0;
}

}  // namespace headrace::cache
