// SPDX-License-Identifier: Apache-2.0
// The scan's own memory is freed folder by folder, so that two forms of a large tree never lie in memory together.
#include "headrace/cache/catalog/catalog_builder.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "headrace/cache/listing.h"
#include "headrace/io/log.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

class CatalogBuilder {
 public:
  explicit CatalogBuilder(io::ScannedTree tree) : tree_(std::move(tree)) {}

  Result<Catalog> build(const CatalogOptions& options, std::string source_path);

 private:
  void reserve();
  Status add_entry(const io::ScannedAttributes& attributes, EntryId parent, std::string_view name);
  void add_directory(EntryId entry, std::uint32_t scanned);
  Status add_children(io::ScannedDirectory& scanned, EntryId directory);
  Status add_child(const io::ScannedDirectory& scanned, const io::ScannedEntry& entry, EntryId directory);
  Result<std::uint16_t> attribute_class(const io::ScannedAttributes& attributes);
  Status list(const CatalogOptions& options);

  io::ScannedTree tree_;
  Catalog catalog_;
  std::vector<std::uint32_t> scanned_of_directory_;  // catalog_.directories_[i] is tree_.directories[this[i]]
  std::map<std::tuple<mode_t, uid_t, gid_t>, std::uint16_t> classes_;
};

Result<Catalog> CatalogBuilder::build(const CatalogOptions& options, std::string source_path) {
  reserve();
  catalog_.skipped_ = tree_.skipped;
  catalog_.unreadable_ = tree_.unreadable_count;
  catalog_.source_path_ = std::move(source_path);
  HEADRACE_TRY_DO(add_entry(tree_.directories[0].attributes, kRootEntry, ""));
  add_directory(kRootEntry, 0);
  for (std::size_t i = 0; i < catalog_.directories_.size(); ++i) {
    io::ScannedDirectory scanned = std::move(tree_.directories[scanned_of_directory_[i]]);
    HEADRACE_TRY_DO(add_children(scanned, catalog_.directories_[i].entry));
  }
  HEADRACE_TRY_DO(list(options));
  return std::move(catalog_);
}

// Exact sizes, because a vector that grows by doubling would break the memory bound.
void CatalogBuilder::reserve() {
  std::size_t entries = 1;
  std::size_t names = 0;
  for (const io::ScannedDirectory& directory : tree_.directories) {
    entries += directory.entries.size();
    names += directory.names.size() + directory.targets.size();
  }
  catalog_.rows_.reserve(entries);
  catalog_.names_.reserve(names);
  catalog_.directories_.reserve(tree_.directories.size());
}

Status CatalogBuilder::add_entry(const io::ScannedAttributes& attributes, EntryId parent, std::string_view name) {
  if (catalog_.rows_.size() >= kNoEntry || catalog_.names_.size() + name.size() + UINT16_MAX > UINT32_MAX) {
    return io::make_error(io::ErrorCode::kUnsupported, "a tree of more than 2^32 entries or 4 GiB of names");
  }
  HEADRACE_TRY(attribute, attribute_class(attributes));
  catalog_.rows_.push_back({.size_bytes = attributes.size_bytes,
                            .mtime_ns = attributes.mtime_ns,
                            .ctime_ns = attributes.ctime_ns,
                            .inode = attributes.inode,
                            .name_offset = static_cast<std::uint32_t>(catalog_.names_.size()),
                            .parent = parent,
                            .detail = kNoSample,
                            .attribute_class = attribute,
                            .name_bytes = static_cast<std::uint16_t>(name.size())});
  catalog_.names_.insert(catalog_.names_.end(), name.begin(), name.end());
  return {};
}

// Its children are known when its turn comes.
void CatalogBuilder::add_directory(EntryId entry, std::uint32_t scanned) {
  catalog_.rows_[entry].detail = static_cast<std::uint32_t>(catalog_.directories_.size());
  catalog_.directories_.push_back({.entry = entry, .first_child = 0, .child_count = 0, .subdirectory_count = 0});
  scanned_of_directory_.push_back(scanned);
}

Status CatalogBuilder::add_children(io::ScannedDirectory& scanned, EntryId directory) {
  const auto same_name = [&](const auto& a, const auto& b) { return scanned.name(a) == scanned.name(b); };
  std::sort(scanned.entries.begin(), scanned.entries.end(),
            [&](const auto& a, const auto& b) { return scanned.name(a) < scanned.name(b); });
  // A folder that changes while it is listed may show a name twice.
  scanned.entries.erase(std::unique(scanned.entries.begin(), scanned.entries.end(), same_name), scanned.entries.end());

  const auto first = static_cast<EntryId>(catalog_.rows_.size());
  const std::size_t directories = catalog_.directories_.size();
  for (const io::ScannedEntry& entry : scanned.entries) {
    HEADRACE_TRY_DO(add_child(scanned, entry, directory));
  }
  const std::uint32_t number = catalog_.rows_[directory].detail;
  catalog_.directories_[number] = {
      .entry = directory,
      .first_child = first,
      .child_count = static_cast<EntryId>(catalog_.rows_.size()) - first,
      .subdirectory_count = static_cast<std::uint32_t>(catalog_.directories_.size() - directories)};
  return {};
}

Status CatalogBuilder::add_child(const io::ScannedDirectory& scanned, const io::ScannedEntry& entry,
                                 EntryId directory) {
  const auto id = static_cast<EntryId>(catalog_.rows_.size());
  if (entry.directory != io::kNoDirectory) {
    const io::ScannedDirectory& subdirectory = tree_.directories[entry.directory];
    if (!subdirectory.readable) return {};
    HEADRACE_TRY_DO(add_entry(subdirectory.attributes, directory, scanned.name(entry)));
    add_directory(id, entry.directory);
    return {};
  }
  HEADRACE_TRY_DO(add_entry(entry.attributes, directory, scanned.name(entry)));
  if (S_ISLNK(entry.attributes.mode)) {
    const std::string_view target = scanned.target(entry);
    catalog_.rows_[id].detail = static_cast<std::uint32_t>(target.size());
    catalog_.names_.insert(catalog_.names_.end(), target.begin(), target.end());
  }
  return {};
}

Result<std::uint16_t> CatalogBuilder::attribute_class(const io::ScannedAttributes& attributes) {
  const auto [found, inserted] = classes_.try_emplace({attributes.mode, attributes.uid, attributes.gid},
                                                      static_cast<std::uint16_t>(catalog_.attributes_.size()));
  if (!inserted) return found->second;
  if (catalog_.attributes_.size() > UINT16_MAX) {
    return io::make_error(io::ErrorCode::kUnsupported, "a tree of more than 65536 combinations of mode and owner");
  }
  catalog_.attributes_.push_back({.mode = attributes.mode, .uid = attributes.uid, .gid = attributes.gid});
  return found->second;
}

Status CatalogBuilder::list(const CatalogOptions& options) {
  catalog_.request_ = {.listing = options.listing, .sample_list_hash = hash_sample_list(options.sample_list)};
  HEADRACE_TRY(listing, list_samples(catalog_, options));
  if (listing.samples.size() >= kNoSample) {
    return io::make_error(io::ErrorCode::kUnsupported, "a listing of more than 2^32 samples");
  }
  catalog_.samples_ = std::move(listing.samples);
  catalog_.labels_ = std::move(listing.labels);
  catalog_.samples_.shrink_to_fit();
  catalog_.labels_.shrink_to_fit();
  catalog_.class_count_ = listing.class_count;
  catalog_.listing_ = listing.rule;
  std::size_t outside = 0;
  for (SampleIndex sample = 0; sample < catalog_.sample_count(); ++sample) {
    const EntryId entry = catalog_.samples_[sample];
    catalog_.sample_bytes_ += catalog_.size_bytes(entry);
    if (catalog_.is_file(entry)) {
      catalog_.rows_[entry].detail = std::min(catalog_.rows_[entry].detail, sample);
    } else {
      ++outside;
    }
  }
  if (outside > 0) io::log_warning("listing: {} samples are symlinks out of the source and cannot be cached", outside);
  return {};
}

Result<Catalog> build_catalog(io::ScannedTree tree, const CatalogOptions& options, std::string source_path) {
  HEADRACE_ASSERT(!tree.directories.empty());
  return CatalogBuilder(std::move(tree)).build(options, std::move(source_path));
}

Identity identity_of(const io::ScannedAttributes& scanned) {
  return {.size_bytes = scanned.size_bytes,
          .mtime_ns = scanned.mtime_ns,
          .ctime_ns = scanned.ctime_ns,
          .inode = scanned.inode};
}

AttributeClass attributes_of(const io::ScannedAttributes& scanned) {
  return {.mode = scanned.mode, .uid = scanned.uid, .gid = scanned.gid};
}

Status check_all_was_read(const io::ScannedTree& tree) {
  if (tree.unreadable_count == 0) return {};
  const io::Unreadable& first = tree.unreadable.front();
  std::string context = "source: /" + first.path;
  if (tree.unreadable_count > 1) context += fmt::format(" and {} more", tree.unreadable_count - 1);
  return io::system_error(first.os_errno, context + " cannot be read");
}

std::shared_ptr<const Catalog> keep_built(Result<Catalog> built) {
  if (built) return std::make_shared<const Catalog>(std::move(*built));
  io::log_warning("other names cannot be shown: {}", built.error().message());
  return nullptr;
}

std::string path_of(int directory_fd) {
  std::error_code no_proc;  // then absolute symlinks count as leaving the tree
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(directory_fd), no_proc).string();
}

Result<Catalog> Catalog::scan(const std::filesystem::path& source, const CatalogOptions& options) {
  const io::UniqueFd directory(::open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) return scan_fd(directory.get(), options);
  const int error = errno;
  if (error == ENOTDIR) return io::make_error(io::ErrorCode::kInvalidArgument, source.string(), ENOTDIR);
  return io::system_error(error, source.string());
}

Result<Catalog> Catalog::scan_fd(int source_fd, const CatalogOptions& options) {
  HEADRACE_TRY(tree, io::scan_tree(source_fd, {.threads = options.scan_threads}));
  if (!options.accept_unreadable) HEADRACE_TRY_DO(check_all_was_read(tree));
  return build_catalog(std::move(tree), options, path_of(source_fd));
}

}  // namespace headrace::cache
