// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/catalog.h"

#include <algorithm>

#include <sys/stat.h>

#include "headrace/cache/listing.h"

namespace headrace::cache {
namespace {

// As many as the kernel follows in one path walk (MAXSYMLINKS, include/linux/namei.h).
constexpr unsigned kSymlinksMax = 40;

// Takes the first component off `path`; slashes around it go too.
std::string_view take_component(std::string_view& path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  const std::string_view component = path.substr(0, path.find('/'));
  path.remove_prefix(component.size());
  return component;
}

}  // namespace

std::size_t Catalog::entry_count() const {
  return rows_.size();
}
std::size_t Catalog::skipped() const {
  return skipped_;
}
std::size_t Catalog::unreadable() const {
  return unreadable_;
}

const AttributeClass& Catalog::attributes(EntryId entry) const {
  return attributes_[rows_[entry].attribute_class];
}
mode_t Catalog::type(EntryId entry) const {
  return attributes(entry).mode & S_IFMT;
}
bool Catalog::is_directory(EntryId entry) const {
  return type(entry) == S_IFDIR;
}
bool Catalog::is_file(EntryId entry) const {
  return type(entry) == S_IFREG;
}
bool Catalog::is_symlink(EntryId entry) const {
  return type(entry) == S_IFLNK;
}

Identity Catalog::identity(EntryId entry) const {
  const Row& row = rows_[entry];
  return {.size_bytes = row.size_bytes, .mtime_ns = row.mtime_ns, .ctime_ns = row.ctime_ns, .inode = row.inode};
}

std::uint64_t Catalog::size_bytes(EntryId entry) const {
  return rows_[entry].size_bytes;
}

std::string_view Catalog::name(EntryId entry) const {
  const Row& row = rows_[entry];
  return {names_.data() + row.name_offset, row.name_bytes};
}

std::string_view Catalog::symlink_target(EntryId entry) const {
  if (!is_symlink(entry)) return {};
  const Row& row = rows_[entry];
  return {names_.data() + row.name_offset + row.name_bytes, row.detail};
}

EntryId Catalog::parent(EntryId entry) const {
  return rows_[entry].parent;
}

std::string Catalog::path(EntryId entry) const {
  std::size_t bytes = 0;
  for (EntryId at = entry; at != kRootEntry; at = parent(at)) bytes += name(at).size() + 1;
  if (bytes == 0) return {};
  std::string path(bytes - 1, '/');
  for (EntryId at = entry; at != kRootEntry; at = parent(at)) {
    bytes -= name(at).size() + 1;
    name(at).copy(path.data() + bytes, name(at).size());
  }
  return path;
}

Catalog::Range Catalog::children(EntryId directory) const {
  if (!is_directory(directory)) return {};
  const Directory& found = directories_[rows_[directory].detail];
  return {.first = found.first_child, .count = found.child_count};
}

std::uint32_t Catalog::subdirectory_count(EntryId directory) const {
  return is_directory(directory) ? directories_[rows_[directory].detail].subdirectory_count : 0;
}

std::optional<EntryId> Catalog::find(EntryId directory, std::string_view wanted) const {
  const Range range = children(directory);
  EntryId first = range.first;
  EntryId end = range.first + range.count;
  while (first < end) {
    const EntryId middle = first + (end - first) / 2;
    const int order = name(middle).compare(wanted);
    if (order == 0) return middle;
    if (order < 0) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return std::nullopt;
}

std::optional<EntryId> Catalog::find(std::string_view path) const {
  unsigned links_left = kSymlinksMax;
  return walk(kRootEntry, path, links_left);
}

std::optional<EntryId> Catalog::resolve(EntryId entry) const {
  unsigned links_left = kSymlinksMax;
  return follow(entry, links_left);
}

// Walks `path` from a directory as the kernel would; nullopt where the path leaves the tree.
std::optional<EntryId> Catalog::walk(EntryId from, std::string_view path, unsigned& links_left) const {
  std::optional<EntryId> at = from;
  for (std::string_view component = take_component(path); at && !component.empty(); component = take_component(path)) {
    if (!is_directory(*at)) return std::nullopt;
    if (component == ".") continue;
    if (component == "..") {
      if (*at == kRootEntry) return std::nullopt;
      at = parent(*at);
      continue;
    }
    at = find(*at, component);
    if (at) at = follow(*at, links_left);
  }
  return at;
}

std::optional<EntryId> Catalog::follow(EntryId entry, unsigned& links_left) const {
  if (!is_symlink(entry)) return entry;
  if (links_left == 0) return std::nullopt;
  --links_left;
  std::string_view target = symlink_target(entry);
  if (!target.starts_with('/')) return walk(parent(entry), target, links_left);
  if (source_path_.empty() || !target.starts_with(source_path_)) return std::nullopt;
  target.remove_prefix(source_path_.size());
  if (!target.empty() && target.front() != '/') return std::nullopt;
  return walk(kRootEntry, target, links_left);
}

SampleIndex Catalog::sample_count() const {
  return static_cast<SampleIndex>(samples_.size());
}
EntryId Catalog::sample_entry(SampleIndex sample) const {
  return samples_[sample];
}
std::uint32_t Catalog::sample_label(SampleIndex sample) const {
  return labels_.empty() ? 0 : labels_[sample];
}

std::optional<SampleIndex> Catalog::sample_of(EntryId entry) const {
  if (!is_file(entry) || rows_[entry].detail == kNoSample) return std::nullopt;
  return rows_[entry].detail;
}

std::uint64_t Catalog::sample_bytes() const {
  return sample_bytes_;
}
ListingRule Catalog::listing() const {
  return listing_;
}
std::size_t Catalog::class_count() const {
  return class_count_;
}

bool Catalog::fits(const CatalogOptions& options) const {
  return request_ == Request{.listing = options.listing, .sample_list_hash = hash_sample_list(options.sample_list)};
}

}  // namespace headrace::cache
