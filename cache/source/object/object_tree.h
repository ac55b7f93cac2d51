// SPDX-License-Identifier: Apache-2.0
// The objects below a prefix as the tree of a data set: folders come from the '/' in their keys.
//
//   HEADRACE_TRY(client, ObjectClient::open(options));
//   ObjectTree tree(std::move(client));
//   HEADRACE_TRY(catalog, tree.open_catalog(options, ""));   // lists the bucket; no object is asked for by itself
//
// Thread-safety: every function from any thread but the client's.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>

#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/object_listing.h"
#include "headrace/cache/source/source_tree.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class ObjectTree final : public SourceTree {
 public:
  explicit ObjectTree(std::unique_ptr<ObjectClient> client) : client_(std::move(client)) {}

  [[nodiscard]] ObjectClient& client() { return *client_; }

  // A listing each time: a bucket has nothing that tells at once whether it has changed. `file` is not used.
  // Errors: those of list_objects().
  [[nodiscard]] Result<Catalog> open_catalog(const CatalogOptions& options,
                                             const std::filesystem::path& file) const override;
  [[nodiscard]] Result<CatalogChanges> find_changes(const Catalog& catalog,
                                                    const RevalidateOptions& options) const override;
  [[nodiscard]] Result<io::ScannedAttributes> look_at(const std::string& path) const override;
  [[nodiscard]] bool has_acl(const std::string& /*path*/) const override { return false; }
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
  const std::unique_ptr<ObjectClient> client_;
  mutable io::Mutex mutex_;
  // One for each read that ends just now.
  std::unordered_map<std::string, Result<io::ScannedAttributes>> seen_ HEADRACE_GUARDED_BY(mutex_);
};

// The tree that a file system shows of a listing. Empty folders stay where the store has an object for them.
[[nodiscard]] io::ScannedTree tree_of(const ObjectListing& listing);

}  // namespace headrace::cache
