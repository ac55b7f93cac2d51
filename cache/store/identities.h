// SPDX-License-Identifier: Apache-2.0
// What each file is known to be now: as catalogued, unless somebody has found since that it changed or vanished. The
// one owner of that knowledge; the store, the mount and the tiers ask here.
//
// Thread-safety: every function from any thread. Ownership: the catalog outlives it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "headrace/cache/revalidate.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class Identities {
 public:
  explicit Identities(const Catalog& catalog);

  // Errors: kInvalidArgument (no such entry), kNotFound (vanished).
  [[nodiscard]] Result<Identity> of(EntryId entry) const;
  // As of(), for what is about to be read. Errors: kInvalidArgument for what is not a file, too.
  [[nodiscard]] Result<Identity> of_file(EntryId entry) const;
  // How many chunks the tiers hold the file in; 1 for a file that vanished and for what is no file.
  [[nodiscard]] std::uint32_t chunks_of(EntryId entry) const;

  // nullopt: the file has vanished. False: this was known already.
  bool set(EntryId entry, const std::optional<Identity>& identity);
  // All that differs from the catalog, `appeared` aside.
  [[nodiscard]] CatalogChanges changes() const;

  // Mode and owner, of whatever entry. False: this was known already.
  [[nodiscard]] AttributeClass attributes(EntryId entry) const;
  bool set_attributes(EntryId entry, const AttributeClass& attributes);

  // Whether the source was asked about the file since the catalog was saved. Until then disk tiers may have what was in
  // the file before. Always true where the catalog is of a scan.
  [[nodiscard]] bool is_confirmed(EntryId entry) const;
  void confirm(EntryId entry);
  void confirm_all() { all_confirmed_.store(true, std::memory_order_release); }

 private:
  const Catalog& catalog_;
  std::atomic<bool> all_confirmed_;
  std::vector<std::atomic<std::uint64_t>> confirmed_;  // a bit per entry, for as long as that is not all of them
  std::atomic<bool> any_changed_ = false;              // spares the lock as long as nothing has changed
  mutable io::Mutex mutex_;
  std::unordered_map<EntryId, std::optional<Identity>> changed_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_map<EntryId, AttributeClass> attributes_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::cache
