// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_tree.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/cache/catalog/comparison.h"
#include "headrace/cache/saved_catalog.h"
#include "headrace/cache/source/object/object_identity.h"
#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::CondVar;
using io::Mutex;
using io::MutexLock;
using io::ScannedAttributes;
using io::ScannedDirectory;
using io::ScannedTree;
using std::chrono::steady_clock;

// Whoever waits for the first listing wants to see that it gets on, and needs no line for each thousand objects.
constexpr std::chrono::seconds kProgressInterval{2};

// Two rounds of what is asked for at a time, which take a fraction of a second. What is listed in that is listed at
// each start, so that new objects show at once.
constexpr std::size_t kRequestsWorthAWait = 64;
constexpr std::size_t kKeysPerRequest = 1000;

std::size_t requests_to_list(const Catalog& catalog) {
  std::size_t requests = 0;
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (catalog.is_directory(entry)) requests += 1 + catalog.children(entry).count / kKeysPerRequest;
  }
  return requests;
}

// Folders by their paths, which are views of the listing's keys.
class TreeMaker {
 public:
  explicit TreeMaker(const ObjectListing& listing) : listing_(listing) {}

  ScannedTree make() {
    add_root();
    for (const ListedObject& object : listing_.objects) add(object);
    tree_.skipped = listing_.skipped + listing_.shadowed;
    return std::move(tree_);
  }

 private:
  static ScannedAttributes folder_attributes() {
    return {.mode = S_IFDIR | 0555, .uid = ::geteuid(), .gid = ::getegid()};
  }

  void add_root() {
    ScannedDirectory root;
    root.attributes = folder_attributes();
    root.readable = true;
    tree_.directories.push_back(std::move(root));
    folders_.emplace("", 0);
  }

  void add(const ListedObject& object) {
    const std::string_view key = listing_.key(object);
    if (object.is_folder) {
      folder(key);
      return;
    }
    const auto [parent, name] = split(key);
    ScannedDirectory& directory = tree_.directories[folder(parent)];
    const ScannedAttributes attributes = attributes_of_object(
        {.etag = listing_.etag(object), .size_bytes = object.size_bytes, .mtime_ns = object.mtime_ns});
    add_entry(directory, attributes, io::kNoDirectory, name);
    directory.attributes.mtime_ns = std::max(directory.attributes.mtime_ns, attributes.mtime_ns);
  }

  // The number of the folder, which is made if it is not there yet.
  std::uint32_t folder(std::string_view path) {
    if (path == last_path_) return last_;  // keys are sorted, so that the files of a folder mostly follow each other
    const auto found = folders_.find(path);
    last_ = found != folders_.end() ? found->second : make_folder(path);
    last_path_ = path;
    return last_;
  }

  // Keys have 1 024 bytes at most, so that this is bounded.
  std::uint32_t make_folder(std::string_view path) {
    const auto [parent_path, name] = split(path);
    const auto known = folders_.find(parent_path);
    const std::uint32_t parent = known != folders_.end() ? known->second : make_folder(parent_path);
    const auto number = static_cast<std::uint32_t>(tree_.directories.size());
    ScannedDirectory made;
    made.attributes = folder_attributes();
    made.parent = parent;
    made.name_offset = static_cast<std::uint32_t>(tree_.directories[parent].names.size());
    made.name_bytes = static_cast<std::uint16_t>(name.size());
    made.readable = true;
    add_entry(tree_.directories[parent], {}, number, name);
    tree_.directories.push_back(std::move(made));
    folders_.emplace(path, number);
    return number;
  }

  static void add_entry(ScannedDirectory& directory, const ScannedAttributes& attributes, std::uint32_t number,
                        std::string_view name) {
    directory.entries.push_back({.attributes = attributes,
                                 .directory = number,
                                 .name_offset = static_cast<std::uint32_t>(directory.names.size()),
                                 .target_offset = 0,
                                 .name_bytes = static_cast<std::uint16_t>(name.size()),
                                 .target_bytes = 0});
    directory.names += name;
  }

  static std::pair<std::string_view, std::string_view> split(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return {"", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
  }

  const ObjectListing& listing_;
  ScannedTree tree_;
  std::unordered_map<std::string_view, std::uint32_t> folders_;
  std::string_view last_path_;  // the root, at first
  std::uint32_t last_ = 0;
};

// One blocking HEAD. The notification happens under the lock: the waiter may take this away as soon as it has seen it.
class Head {
 public:
  Result<ScannedAttributes> ask(ObjectClient& client, const std::string& path) {
    read_.key = path.c_str();
    read_.context = this;
    read_.on_done = [](ObjectRead& read, Status status) {
      Head& self = *static_cast<Head*>(read.context);
      MutexLock lock(self.mutex_);
      self.status_ = std::move(status);
      self.arrived_.notify_one();
    };
    client.read(read_);
    MutexLock lock(mutex_);
    while (!status_) arrived_.wait(lock);
    if (!*status_) return tl::unexpected<io::Error>(status_->error());
    return attributes_of_object(
        {.etag = read_.found.etag, .size_bytes = read_.found.object_bytes, .mtime_ns = read_.found.mtime_ns});
  }

 private:
  ObjectRead read_;
  Mutex mutex_;
  CondVar arrived_;
  std::optional<Status> status_ HEADRACE_GUARDED_BY(mutex_);
};

void tell_what_is_left_out(const ObjectListing& listing, const std::string& name) {
  const std::uint64_t count = listing.skipped + listing.shadowed;
  if (count == 0) return;
  std::string names;
  for (const std::string& each : listing.skipped_names) names += (names.empty() ? "" : ", ") + each;
  io::log_warning("{}: {} objects are left out, because no file system can show their names: {}{}", name, count, names,
                  count > listing.skipped_names.size() ? " ..." : "");
}

Result<ScannedTree> list(ObjectClient& client, const std::atomic<bool>* stop,
                         const ObjectTree::OnListing& on_listing = {}) {
  auto next_line = steady_clock::now() + kProgressInterval;
  const auto show_progress = [&](std::uint64_t objects) {
    if (on_listing) on_listing(objects);
    if (steady_clock::now() < next_line) return;
    next_line = steady_clock::now() + kProgressInterval;
    io::log_info("{}: {} objects are listed so far", client.name(), objects);
  };
  HEADRACE_TRY(listing, list_objects(client, {.stop = stop, .on_progress = show_progress}));
  tell_what_is_left_out(listing, client.name());
  return tree_of(listing);
}

}  // namespace

ScannedTree tree_of(const ObjectListing& listing) {
  return TreeMaker(listing).make();
}

Result<Catalog> ObjectTree::open_catalog(const CatalogOptions& options, const std::filesystem::path& file) const {
  const Kept kept{options, file};
  {
    MutexLock lock(mutex_);
    kept_ = kept;
  }
  if (std::optional<Catalog> saved = load(kept)) return std::move(*saved);
  HEADRACE_TRY(tree, list(*client_, nullptr, on_listing_));
  HEADRACE_TRY(listed, build_catalog(std::move(tree), options, client_->name()));
  if (!file.empty()) keep_catalog(listed, file);
  return listed;
}

std::optional<Catalog> ObjectTree::load(const Kept& kept) const {
  if (!may_be_old_ || kept.file.empty()) return std::nullopt;
  const Result<SavedCatalog> about = describe_catalog(kept.file);
  if (about && about->source != client_->name()) return std::nullopt;  // by its name in another store
  std::optional<Catalog> saved = load_catalog(kept.options, kept.file);
  if (saved && requests_to_list(*saved) <= kRequestsWorthAWait) return std::nullopt;
  return saved;
}

Result<CatalogChanges> ObjectTree::find_changes(const Catalog& catalog, const RevalidateOptions& options) const {
  HEADRACE_TRY(tree, list(*client_, options.stop));
  CatalogChanges changes = compare(catalog, tree);
  const Kept kept = [&] {
    MutexLock lock(mutex_);
    return kept_;
  }();
  const bool is_wanted = options.next && changes.names_differ();
  if (changes.none() || (kept.file.empty() && !is_wanted)) return changes;
  const std::shared_ptr<const Catalog> now =
      keep_built(build_catalog(std::move(tree), options.next.value_or(kept.options), client_->name()));
  if (now && !kept.file.empty()) keep_catalog(*now, kept.file);
  if (is_wanted) changes.next = now;
  return changes;
}

Result<ScannedAttributes> ObjectTree::look_at(const std::string& path) const {
  {
    MutexLock lock(mutex_);
    const auto seen = seen_.find(path);
    if (seen != seen_.end()) return seen->second;
  }
  return Head().ask(*client_, path);
}

std::uint64_t ObjectTree::storage_id() const {
  const std::string name = client_->name();
  return XXH3_64bits(name.data(), name.size());
}

ObjectTree::Seen::Seen(ObjectTree& tree, std::string path, Result<ScannedAttributes> found)
    : tree_(tree), path_(std::move(path)) {
  MutexLock lock(tree_.mutex_);
  tree_.seen_.insert_or_assign(path_, std::move(found));
}

ObjectTree::Seen::~Seen() {
  MutexLock lock(tree_.mutex_);
  tree_.seen_.erase(path_);
}

}  // namespace headrace::cache
