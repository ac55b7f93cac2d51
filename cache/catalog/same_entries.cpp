// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/same_entries.h"

namespace headrace::cache {
namespace {

bool is_same_kind(const Catalog& before, EntryId was, const Catalog& now, EntryId is) {
  if (now.is_symlink(is)) return before.is_symlink(was) && before.symlink_target(was) == now.symlink_target(is);
  return before.is_directory(was) == now.is_directory(is) && before.is_file(was) == now.is_file(is);
}

}  // namespace

// Breadth first, as catalogs are: a folder is known before its children. Both lists of these are sorted by name.
std::vector<EntryId> same_entries(const Catalog& before, const Catalog& now) {
  std::vector<EntryId> same(now.entry_count(), kNoEntry);
  same[kRootEntry] = kRootEntry;
  for (EntryId directory = 0; directory < now.entry_count(); ++directory) {
    if (!now.is_directory(directory) || same[directory] == kNoEntry) continue;
    const Catalog::Range were = before.children(same[directory]);
    const Catalog::Range are = now.children(directory);
    EntryId was = were.first;
    for (EntryId is = are.first; is < are.first + are.count; ++is) {
      while (was < were.first + were.count && before.name(was) < now.name(is)) ++was;
      if (was == were.first + were.count) break;
      if (before.name(was) == now.name(is) && is_same_kind(before, was, now, is)) same[is] = was;
    }
  }
  return same;
}

}  // namespace headrace::cache
