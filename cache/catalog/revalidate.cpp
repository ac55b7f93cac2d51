// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/revalidate.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>

#include <pthread.h>

#include "headrace/cache/catalog/catalog_builder.h"
#include "headrace/cache/catalog/comparison.h"
#include "headrace/io/file_system.h"
#include "headrace/io/log.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {
namespace {

std::vector<EntryId> directories_of(const Catalog& catalog) {
  std::vector<EntryId> directories = {kRootEntry};
  for (std::size_t i = 0; i < directories.size(); ++i) {
    const Catalog::Range children = catalog.children(directories[i]);
    for (EntryId child = children.first; child < children.first + children.count; ++child) {
      if (catalog.is_directory(child)) directories.push_back(child);
    }
  }
  return directories;
}

// Several threads take directories one by one, until one of these turns out to have changed.
class FolderCheck {
 public:
  FolderCheck(const Catalog& catalog, int source_fd)
      : catalog_(catalog), source_fd_(source_fd), directories_(directories_of(catalog)) {}

  bool run(unsigned threads) {
    std::vector<std::thread> helpers;
    try {
      for (unsigned i = 1; i < std::min<std::size_t>(threads, directories_.size()); ++i) {
        helpers.emplace_back([this] {
          ::pthread_setname_np(::pthread_self(), "hr-check");
          work();
        });
      }
    } catch (const std::system_error&) {  // no thread to be had: fewer do the same work
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    return !differs_.load();
  }

 private:
  void work() {
    for (std::size_t i = next_.fetch_add(1); i < directories_.size() && !differs_.load(); i = next_.fetch_add(1)) {
      if (is_current(directories_[i]) || differs_.exchange(true)) continue;
      io::log_info("the source has changed since it was catalogued: folder /{}", catalog_.path(directories_[i]));
    }
  }

  bool is_current(EntryId directory) const {
    const std::string path = directory == kRootEntry ? "." : catalog_.path(directory);
    const Result<io::ScannedAttributes> now = io::read_attributes(source_fd_, path);
    const Identity before = catalog_.identity(directory);
    return now && attributes_of(*now) == catalog_.attributes(directory) && now->mtime_ns == before.mtime_ns &&
           (now->inode == before.inode || before.inode == 0);  // 0: does not last
  }

  const Catalog& catalog_;
  const int source_fd_;
  const std::vector<EntryId> directories_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> differs_ = false;
};

}  // namespace

std::optional<Catalog> load_catalog(const CatalogOptions& options, const std::filesystem::path& file) {
  Result<Catalog> saved = Catalog::load(file);
  if (!saved) {
    const io::ErrorCode code = saved.error().code;
    if (code == io::ErrorCode::kUnsupported) {
      io::log_info("{}; scanning anew", saved.error().message());
    } else if (code != io::ErrorCode::kNotFound) {
      io::log_warning("{}; scanning anew", saved.error().message());
    }
    return std::nullopt;
  }
  if (!saved->fits(options)) return std::nullopt;
  return std::move(*saved);
}

void keep_catalog(const Catalog& catalog, const std::filesystem::path& file) {
  if (catalog.unreadable() > 0) return;  // the next start may be able to read what is missing here
  if (const Status saved = catalog.save(file); !saved) {
    io::log_warning("{}; the next start scans again", saved.error().message());
  }
}

// An earlier version saved inode numbers that do not last, and every file would seem to be another one.
bool has_passing_numbers(const Catalog& catalog, int source_fd) {
  return catalog.identity(kRootEntry).inode != 0 && !io::has_lasting_inodes(source_fd);
}

Result<Catalog> open_catalog(int source_fd, const CatalogOptions& options, const std::filesystem::path& file) {
  if (file.empty()) return Catalog::scan_fd(source_fd, options);
  if (std::optional<Catalog> saved = load_catalog(options, file)) {
    const Result<bool> current = folders_current(*saved, source_fd, {.threads = options.scan_threads});
    if (current && *current && !has_passing_numbers(*saved, source_fd)) return std::move(*saved);
  }
  HEADRACE_TRY(scanned, Catalog::scan_fd(source_fd, options));
  keep_catalog(scanned, file);
  return scanned;
}

Result<bool> folders_current(const Catalog& catalog, int source_fd, const RevalidateOptions& options) {
  if (auto root = io::read_attributes(source_fd, "."); !root) return io::forward_error(std::move(root));
  return FolderCheck(catalog, source_fd).run(io::scan_threads({.threads = options.threads}));
}

Result<CatalogChanges> find_changes(const Catalog& catalog, int source_fd, const RevalidateOptions& options) {
  HEADRACE_TRY(tree, io::scan_tree(source_fd, {.threads = options.threads, .stop = options.stop}));
  if (catalog.unreadable() == 0) HEADRACE_TRY_DO(check_all_was_read(tree));  // what is not seen has not vanished
  CatalogChanges changes = compare(catalog, tree);
  const bool sees_as_much = tree.unreadable_count <= catalog.unreadable();
  if (!options.next || !changes.names_differ() || !sees_as_much) return changes;
  changes.next = keep_built(build_catalog(std::move(tree), *options.next, path_of(source_fd)));
  return changes;
}

}  // namespace headrace::cache
