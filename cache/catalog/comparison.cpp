// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/catalog/comparison.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "headrace/cache/catalog/catalog_builder.h"

namespace headrace::cache {
namespace {

// Goes through a catalog and a scan side by side.
class Comparison {
 public:
  Comparison(const Catalog& catalog, io::ScannedTree& tree) : catalog_(catalog), tree_(tree) {}

  CatalogChanges run() {
    pairs_.push_back({kRootEntry, 0});
    for (std::size_t i = 0; i < pairs_.size(); ++i) compare(pairs_[i].directory, tree_.directories[pairs_[i].scanned]);
    return std::move(changes_);
  }

 private:
  struct Pair {
    EntryId directory = kNoEntry;
    std::uint32_t scanned = 0;
  };

  // Both lists are sorted by name.
  void compare(EntryId directory, io::ScannedDirectory& scanned) {
    std::sort(scanned.entries.begin(), scanned.entries.end(),
              [&](const auto& a, const auto& b) { return scanned.name(a) < scanned.name(b); });
    compare_attributes(directory, scanned.attributes);
    const std::int64_t ctime_ns = scanned.attributes.ctime_ns;
    if (ctime_ns != catalog_.identity(directory).ctime_ns) changes_.touched.push_back({directory, ctime_ns});
    const Catalog::Range range = catalog_.children(directory);
    EntryId known = range.first;
    const EntryId end = range.first + range.count;
    for (const io::ScannedEntry& entry : scanned.entries) {
      const std::string_view name = scanned.name(entry);
      while (known < end && catalog_.name(known) < name) vanish(known++);
      if (known < end && catalog_.name(known) == name) {
        if (!is_unreadable(entry)) compare_entry(known, scanned, entry);  // else it counts as unchanged
        ++known;
      } else if (!is_unreadable(entry)) {
        appear(entry);
      }
    }
    while (known < end) vanish(known++);
  }

  void compare_entry(EntryId known, const io::ScannedDirectory& scanned, const io::ScannedEntry& entry) {
    const bool directory = entry.directory != io::kNoDirectory;
    const bool symlink = S_ISLNK(entry.attributes.mode);
    if (directory != catalog_.is_directory(known) || symlink != catalog_.is_symlink(known)) {
      vanish(known);
      appear(entry);
      return;
    }
    if (!directory) compare_attributes(known, entry.attributes);
    if (directory) return pairs_.push_back({known, entry.directory});
    if (symlink) {
      if (catalog_.symlink_target(known) != scanned.target(entry)) vanish(known);
    } else {
      const Identity now = identity_of(entry.attributes);
      if (now != catalog_.identity(known)) changes_.changed.push_back({known, now});
    }
  }

  void compare_attributes(EntryId known, const io::ScannedAttributes& scanned) {
    const AttributeClass now = attributes_of(scanned);
    if (now != catalog_.attributes(known)) changes_.attributes.push_back({known, now});
  }

  bool is_unreadable(const io::ScannedEntry& entry) const {
    return entry.directory != io::kNoDirectory && !tree_.directories[entry.directory].readable;
  }

  void vanish(EntryId entry) {
    if (!catalog_.is_directory(entry)) return changes_.vanished.push_back(entry);
    const Catalog::Range children = catalog_.children(entry);
    for (EntryId child = children.first; child < children.first + children.count; ++child) vanish(child);
  }

  void appear(const io::ScannedEntry& entry) {
    ++changes_.appeared;
    if (entry.directory == io::kNoDirectory) return;
    for (const io::ScannedEntry& child : tree_.directories[entry.directory].entries) appear(child);
  }

  const Catalog& catalog_;
  io::ScannedTree& tree_;
  std::vector<Pair> pairs_;  // directories to be compared
  CatalogChanges changes_;
};

}  // namespace

CatalogChanges compare(const Catalog& catalog, io::ScannedTree& tree) {
  return Comparison(catalog, tree).run();
}

}  // namespace headrace::cache
