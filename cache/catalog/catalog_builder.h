// SPDX-License-Identifier: Apache-2.0
// Makes a catalog of a scanned tree: breadth first, the children of each directory together and sorted by name.
//
//   Result<Catalog> catalog = build_catalog(std::move(*io::scan_tree(fd, {})), options, "/data/imagenet");
//
// Thread-safety: pure function.
#pragma once

#include <memory>
#include <string>

#include "headrace/cache/catalog.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {

// `source_path`: where the tree lies, for absolute symlinks that lead back into it; may be empty.
// Errors: as Catalog::scan_fd(), but for what concerns reading.
[[nodiscard]] Result<Catalog> build_catalog(io::ScannedTree tree, const CatalogOptions& options,
                                            std::string source_path);

// For CatalogChanges::next. Null, with a line in the log, where it could not be made (a list names what has gone).
[[nodiscard]] std::shared_ptr<const Catalog> keep_built(Result<Catalog> built);

// Where an open directory lies; empty where nothing tells.
[[nodiscard]] std::string path_of(int directory_fd);

// What a scan says of an entry, as the catalog keeps it.
[[nodiscard]] Identity identity_of(const io::ScannedAttributes& scanned);
[[nodiscard]] AttributeClass attributes_of(const io::ScannedAttributes& scanned);

// Errors: of the first folder or file that the scan could not read, with its name.
[[nodiscard]] Status check_all_was_read(const io::ScannedTree& tree);

}  // namespace headrace::cache
