// SPDX-License-Identifier: Apache-2.0
// What differs between a catalog and a scan that was made later.
//
//   CatalogChanges changes = compare(catalog, tree);
//
// Thread-safety: pure function.
#pragma once

#include "headrace/cache/catalog.h"
#include "headrace/cache/revalidate.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {

// Sorts the entries of the scan's folders by name. What the scan could not read counts as unchanged.
[[nodiscard]] CatalogChanges compare(const Catalog& catalog, io::ScannedTree& tree);

}  // namespace headrace::cache
