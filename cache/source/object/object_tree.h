// SPDX-License-Identifier: Apache-2.0
// The objects below a prefix as the tree of a data set: folders come from the '/' in their keys.
//
//   HEADRACE_TRY(client, ObjectClient::open(options));
//   ObjectTree tree(std::move(client), false);
//   HEADRACE_TRY(catalog, tree.open_catalog(options, ""));   // lists the bucket; no object is asked for by itself
//
// Thread-safety: every function from any thread but the client's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/object_listing.h"
#include "headrace/cache/source/source_tree.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class ObjectTree final : public SourceTree {
 public:
  using OnListing = std::function<void(std::uint64_t objects)>;  // StoreOptions::on_listing

  // `may_be_old`: a saved catalog need not be listed again, if that takes long (StoreOptions::catalog_may_be_old).
  ObjectTree(std::unique_ptr<ObjectClient> client, bool may_be_old, OnListing on_listing = {})
      : client_(std::move(client)), may_be_old_(may_be_old), on_listing_(std::move(on_listing)) {}

  [[nodiscard]] ObjectClient& client() { return *client_; }

  // A listing, which is saved: a bucket has nothing that tells at once whether it has changed. Or what was saved, if it
  // may be old. Errors: those of list_objects().
  [[nodiscard]] Result<Catalog> open_catalog(const CatalogOptions& options,
                                             const std::filesystem::path& file) const override;
  // Where there are any, the listing is saved for the next start, in the file that open_catalog() was given.
  [[nodiscard]] Result<CatalogChanges> find_changes(const Catalog& catalog,
                                                    const RevalidateOptions& options) const override;
  [[nodiscard]] Result<io::ScannedAttributes> look_at(const std::string& path) const override;
  [[nodiscard]] std::optional<bool> has_acl(const std::string& /*path*/) const override { return false; }
  [[nodiscard]] std::uint64_t storage_id() const override;

  // While this lives, look_at() answers with what was found already, on whatever thread.
  class Seen {
   public:
    Seen(ObjectTree& tree, std::string path, Result<io::ScannedAttributes> found);
    ~Seen();
    Seen(const Seen&) = delete;
    Seen& operator=(const Seen&) = delete;

   private:
    ObjectTree& tree_;
    const std::string path_;
  };

 private:
  // Where and as what catalogs are saved.
  struct Kept {
    CatalogOptions options = {};
    std::filesystem::path file = {};
  };
  [[nodiscard]] std::optional<Catalog> load(const Kept& kept) const;

  const std::unique_ptr<ObjectClient> client_;
  const bool may_be_old_;
  const OnListing on_listing_;  // of open_catalog()
  mutable io::Mutex mutex_;
  mutable Kept kept_ HEADRACE_GUARDED_BY(mutex_);  // of the last open_catalog()
  // One for each read that ends just now.
  std::unordered_map<std::string, Result<io::ScannedAttributes>> seen_ HEADRACE_GUARDED_BY(mutex_);
};

// The tree that a file system shows of a listing. Empty folders stay where the store has an object for them.
[[nodiscard]] io::ScannedTree tree_of(const ObjectListing& listing);

}  // namespace headrace::cache
