// SPDX-License-Identifier: Apache-2.0
// What lies where in a data set's storage, for who may wait for the answer.
//
//   Result<Catalog> catalog = tree->open_catalog(options, "imagenet.catalog");
//   Result<CatalogChanges> changes = tree->find_changes(*catalog, {});   // later
//   Result<io::ScannedAttributes> now = tree->look_at("a/b.jpg");
//
// Thread-safety: every function from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "headrace/cache/catalog.h"
#include "headrace/cache/revalidate.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {

class SourceTree {
 public:
  virtual ~SourceTree() = default;
  SourceTree(const SourceTree&) = delete;
  SourceTree& operator=(const SourceTree&) = delete;

  // As cache::open_catalog().
  [[nodiscard]] virtual Result<Catalog> open_catalog(const CatalogOptions& options,
                                                     const std::filesystem::path& file) const = 0;
  // As cache::find_changes().
  [[nodiscard]] virtual Result<CatalogChanges> find_changes(const Catalog& catalog,
                                                            const RevalidateOptions& options) const = 0;
  // What is at the path now. Within SourceRead::on_done with kStale this answers at once. Errors: kNotFound,
  // kPermission, kSystem.
  [[nodiscard]] virtual Result<io::ScannedAttributes> look_at(const std::string& path) const = 0;
  // Whether more than mode and owner says who may read the file; false of one that is gone. nullopt: the source does
  // not tell now.
  [[nodiscard]] virtual std::optional<bool> has_acl(const std::string& path) const = 0;
  // Tells this storage from all others, also after a reboot and under another name; 0: nothing does so reliably.
  [[nodiscard]] virtual std::uint64_t storage_id() const = 0;

 protected:
  SourceTree() = default;
};

}  // namespace headrace::cache
