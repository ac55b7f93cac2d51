// SPDX-License-Identifier: Apache-2.0
// Makes a catalog of a scanned tree: breadth first, the children of each directory together and sorted by name.
//
//   Result<Catalog> catalog = build_catalog(std::move(*io::scan_tree(fd, {})), options, "/data/imagenet");
//
// Thread-safety: pure function.
#pragma once

#include <string>

#include "headrace/cache/catalog.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {

// `source_path`: where the tree lies, for absolute symlinks that lead back into it; may be empty.
// Errors: as Catalog::scan_fd(), but for what concerns reading.
[[nodiscard]] Result<Catalog> build_catalog(io::ScannedTree tree, const CatalogOptions& options,
                                            std::string source_path);

// What a scan says of an entry, as the catalog keeps it.
[[nodiscard]] Identity identity_of(const io::ScannedAttributes& scanned);
[[nodiscard]] AttributeClass attributes_of(const io::ScannedAttributes& scanned);

// Errors: of the first folder or file that the scan could not read, with its name.
[[nodiscard]] Status check_all_was_read(const io::ScannedTree& tree);

}  // namespace headrace::cache
