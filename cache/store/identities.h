// SPDX-License-Identifier: Apache-2.0
// What each file is known to be now: as catalogued, unless somebody has found since that it changed or vanished. The
// one owner of that knowledge; the store, the mount and the tiers ask here.
//
// Thread-safety: every function from any thread. Ownership: the catalog outlives it.
#pragma once

#include <atomic>
#include <optional>
#include <unordered_map>

#include "headrace/cache/catalog.h"
#include "headrace/cache/revalidate.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class Identities {
 public:
  explicit Identities(const Catalog& catalog) : catalog_(catalog) {}

  // Folders and symlinks are always as catalogued. Errors: kInvalidArgument (no such entry), kNotFound (vanished).
  [[nodiscard]] Result<Identity> of(EntryId entry) const;
  // As of(), for what is about to be read. Errors: kInvalidArgument for what is not a file, too.
  [[nodiscard]] Result<Identity> of_file(EntryId entry) const;
  // How many chunks the tiers hold the file in; 1 for a file that vanished and for what is no file.
  [[nodiscard]] std::uint32_t chunks_of(EntryId entry) const;

  // What set() has said that is not as catalogued, `appeared` aside.
  [[nodiscard]] CatalogChanges changes() const;

  // Mode and owner, of whatever entry.
  [[nodiscard]] AttributeClass attributes(EntryId entry) const;
  void set_attributes(EntryId entry, const AttributeClass& attributes);
  // nullopt: the file has vanished.
  void set(EntryId entry, const std::optional<Identity>& identity);

 private:
  const Catalog& catalog_;
  std::atomic<bool> any_changed_ = false;  // spares the lock as long as nothing has changed
  mutable io::Mutex mutex_;
  std::unordered_map<EntryId, std::optional<Identity>> changed_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_map<EntryId, AttributeClass> attributes_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
