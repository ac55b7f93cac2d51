// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/clear_share.h"

#include <sys/stat.h>

namespace headrace::cache {

bool may_share_in_clear(const Catalog& catalog, EntryId entry) {
  if ((catalog.attributes(entry).mode & S_IROTH) == 0) return false;
  for (EntryId folder = catalog.parent(entry); folder != kRootEntry; folder = catalog.parent(folder)) {
    if ((catalog.attributes(folder).mode & S_IXOTH) == 0) return false;
  }
  return true;
}

std::uint64_t count_kept_back(const Catalog& catalog) {
  std::uint64_t count = 0;
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (catalog.is_file(entry) && !may_share_in_clear(catalog, entry)) ++count;
  }
  return count;
}

}  // namespace headrace::cache
