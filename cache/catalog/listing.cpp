// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/listing.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "headrace/cache/catalog/names.h"
#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using Suffixes = std::vector<std::string_view>;

const Suffixes& suffixes_of(ListingRule rule) {
  static const Suffixes torchvision = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  static const Suffixes timm = {".png", ".jpg", ".jpeg"};
  static const Suffixes dali = {".jpg", ".jpeg", ".png", ".bmp",  ".tif",  ".tiff", ".pnm", ".ppm",
                                ".pgm", ".pbm",  ".jp2", ".webp", ".flac", ".ogg",  ".wav"};
  static const Suffixes keras = {".bmp", ".gif", ".jpeg", ".jpg", ".png"};
  static const Suffixes any = {""};
  switch (rule) {
    case ListingRule::kImageFolder:
      return torchvision;
    case ListingRule::kTimm:
      return timm;
    case ListingRule::kDali:
      return dali;
    case ListingRule::kKeras:
      return keras;
    case ListingRule::kSorted:
      break;
  }
  return any;
}

// Symlinks that share folders among each other can multiply a small tree without end. No real data set comes close.
constexpr std::size_t kLinkedFoldersMax = 100'000;
// So many symlink loops are named, the rest is counted: a tree full of them must not fill the log.
constexpr std::size_t kLoopsNamed = 20;

// A folder as os.walk yields it. `path` is the way that the walk took, which may lead through symlinks.
struct Root {
  std::string path;
  EntryId directory = kRootEntry;
};

// A file or folder to be listed: its name, and the entry behind it once symlinks are followed.
struct Named {
  std::string_view name;
  EntryId entry = kNoEntry;
};

// The children of a directory come sorted by bytes. Only names that are not UTF-8 sort differently in Python.
void sort_as_python(std::vector<Named>& children) {
  if (std::all_of(children.begin(), children.end(), [](const Named& each) { return is_valid_utf8(each.name); })) return;
  std::sort(children.begin(), children.end(),
            [](const Named& a, const Named& b) { return python_compare(a.name, b.name) < 0; });
}

enum class Ways : bool { kNo, kYes };

void note_way(const Catalog& tree, EntryId entry, std::string_view way, Listing& listing) {
  if (tree.path(entry) == way) return;
  listing.ways.emplace(static_cast<SampleIndex>(listing.samples.size()), way);
}

class Lister {
 public:
  Lister(const Catalog& tree, ListingRule rule, Ways ways)
      : tree_(tree), rule_(rule), suffixes_(suffixes_of(rule)), ways_(ways) {}

  Listing list();

 private:
  void list_classes();
  void list_class(const Named& folder);
  void list_by_natural_key();
  void list_by_path(EntryId directory);

  std::optional<EntryId> as_directory(EntryId entry) const;
  std::vector<Named> classes() const;
  std::vector<Named> files(EntryId directory) const;
  void walk(EntryId directory, std::string path, std::vector<Root>& roots);
  void descend(EntryId child, const std::string& path, std::vector<Root>& roots);

  const Catalog& tree_;
  const ListingRule rule_;
  const Suffixes& suffixes_;
  const Ways ways_;
  std::vector<EntryId> ancestors_;  // of the folder that walk() is in
  std::size_t linked_folders_ = 0;
  std::size_t loops_ = 0;
  Listing listing_;
};

Listing Lister::list() {
  listing_.rule = rule_;
  switch (rule_) {
    case ListingRule::kImageFolder:
    case ListingRule::kDali:
    case ListingRule::kKeras:
      list_classes();
      break;
    case ListingRule::kTimm:
      list_by_natural_key();
      break;
    case ListingRule::kSorted:
      list_by_path(kRootEntry);
      break;
  }
  if (loops_ > kLoopsNamed) io::log_warning("listing: {} symlink loops in all, none followed", loops_);
  return std::move(listing_);
}

// The folder that an entry is or leads to.
std::optional<EntryId> Lister::as_directory(EntryId entry) const {
  if (tree_.is_file(entry)) return std::nullopt;
  const std::optional<EntryId> resolved = tree_.resolve(entry);
  return resolved && tree_.is_directory(*resolved) ? resolved : std::nullopt;
}

// The children of a folder that have one of the suffixes and are no folders. A symlink that leads nowhere or out of the
// tree counts as a file, as it does for os.walk.
std::vector<Named> Lister::files(EntryId directory) const {
  std::vector<Named> found;
  const Catalog::Range children = tree_.children(directory);
  for (EntryId child = children.first; child < children.first + children.count; ++child) {
    const std::string_view name = tree_.name(child);
    if (!has_suffix(name, suffixes_) || as_directory(child)) continue;
    found.push_back({name, tree_.resolve(child).value_or(child)});
  }
  sort_as_python(found);
  return found;
}

// Every folder below and including `directory`, in no particular order.
void Lister::walk(EntryId directory, std::string path, std::vector<Root>& roots) {
  // A symlink to a folder that the walk is in: os.walk would go around until the kernel says ELOOP.
  if (std::find(ancestors_.begin(), ancestors_.end(), directory) != ancestors_.end()) {
    if (++loops_ <= kLoopsNamed) io::log_warning("listing: {}: a symlink loop, not followed", path);
    return;
  }
  ancestors_.push_back(directory);
  const Catalog::Range children = tree_.children(directory);
  for (EntryId child = children.first; child < children.first + children.count; ++child) {
    descend(child, path, roots);
  }
  ancestors_.pop_back();
  roots.push_back({std::move(path), directory});
}

void Lister::descend(EntryId child, const std::string& path, std::vector<Root>& roots) {
  const std::optional<EntryId> folder = as_directory(child);
  if (!folder) return;
  if (tree_.is_symlink(child)) {
    if (rule_ == ListingRule::kKeras || linked_folders_ == kLinkedFoldersMax) return;
    if (++linked_folders_ == kLinkedFoldersMax) {
      io::log_warning("listing: more than {} symlinked folders, the rest is left out", kLinkedFoldersMax);
    }
  }
  walk(*folder, path + '/' + std::string(tree_.name(child)), roots);
}

std::vector<Named> Lister::classes() const {
  std::vector<Named> found;
  const Catalog::Range children = tree_.children(kRootEntry);
  for (EntryId child = children.first; child < children.first + children.count; ++child) {
    const std::string_view name = tree_.name(child);
    if (rule_ == ListingRule::kKeras && name.starts_with('.')) continue;
    if (const std::optional<EntryId> folder = as_directory(child)) found.push_back({name, *folder});
  }
  if (rule_ != ListingRule::kDali) sort_as_python(found);
  return found;
}

void Lister::list_classes() {
  for (const Named& folder : classes()) {
    list_class(folder);
    ++listing_.class_count;
  }
}

void Lister::list_class(const Named& folder) {
  std::vector<Root> roots;
  if (rule_ == ListingRule::kDali) {
    roots.push_back({std::string(folder.name), folder.entry});
  } else {
    walk(folder.entry, std::string(folder.name), roots);
    std::sort(roots.begin(), roots.end(),
              [](const Root& a, const Root& b) { return python_compare(a.path, b.path) < 0; });
  }
  for (const Root& root : roots) {
    for (const Named& file : files(root.directory)) {
      if (ways_ == Ways::kYes) note_way(tree_, file.entry, root.path + '/' + std::string(file.name), listing_);
      listing_.samples.push_back(file.entry);
      listing_.labels.push_back(listing_.class_count);
    }
  }
}

// timm's label of a sample is the name of the folder that it lies in; labels are numbered by natural key, too.
class NaturalListing {
 public:
  void add(const Root& root, const Named& file) {
    std::string path = root.path + '/' + std::string(file.name);
    const std::string folder = root.path.substr(root.path.rfind('/') + 1);
    const auto label = labels_.try_emplace({lower_case(folder), folder}, 0).first;
    found_.push_back({lower_case(path), std::move(path), file.entry, label});
  }

  void finish(const Catalog& tree, Ways ways, Listing& listing) {
    for (auto& [key, number] : labels_) number = listing.class_count++;
    std::sort(found_.begin(), found_.end());
    for (const Found& each : found_) {
      if (ways == Ways::kYes) note_way(tree, each.entry, each.path.substr(1), listing);
      listing.samples.push_back(each.entry);
      listing.labels.push_back(each.label->second);
    }
  }

 private:
  // Ties go by the bytes of the name as it is.
  struct Less {
    bool operator()(const auto& a, const auto& b) const {
      const int order = natural_compare(a.first, b.first);
      return order != 0 ? order < 0 : a.second < b.second;
    }
  };
  using Labels = std::map<std::pair<std::string, std::string>, std::uint32_t, Less>;
  struct Found {
    std::string key;
    std::string path;
    EntryId entry = kNoEntry;
    Labels::const_iterator label;

    bool operator<(const Found& other) const {
      const int order = natural_compare(key, other.key);
      return order != 0 ? order < 0 : path < other.path;
    }
  };

  Labels labels_;
  std::vector<Found> found_;
};

void Lister::list_by_natural_key() {
  NaturalListing natural;
  std::vector<Root> roots;
  walk(kRootEntry, "", roots);
  for (const Root& root : roots) {
    for (const Named& file : files(root.directory)) {
      // os.path.splitext takes leading dots for part of the name: ".jpg" has no suffix.
      if (file.name.find_first_not_of('.') < file.name.rfind('.')) natural.add(root, file);
    }
  }
  natural.finish(tree_, ways_, listing_);
}

// Whole paths sort like names in which that of a folder ends in '/'.
void Lister::list_by_path(EntryId directory) {
  struct Child {
    std::string key;
    EntryId entry;
  };
  std::vector<Child> ordered;
  const Catalog::Range children = tree_.children(directory);
  ordered.reserve(children.count);
  for (EntryId child = children.first; child < children.first + children.count; ++child) {
    if (!tree_.is_directory(child) && as_directory(child)) continue;
    ordered.push_back({std::string(tree_.name(child)) + (tree_.is_directory(child) ? "/" : ""), child});
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const Child& a, const Child& b) { return python_compare(a.key, b.key) < 0; });
  for (const Child& child : ordered) {
    if (tree_.is_directory(child.entry)) {
      list_by_path(child.entry);
    } else {
      const EntryId entry = tree_.resolve(child.entry).value_or(child.entry);
      if (ways_ == Ways::kYes) note_way(tree_, entry, tree_.path(child.entry), listing_);
      listing_.samples.push_back(entry);
    }
  }
}

// One line of a sample list: a path, and a label where the line ends in a blank and a number.
struct ListLine {
  std::string_view path;
  std::optional<std::uint32_t> label;
};

ListLine split_label(std::string_view line) {
  const std::size_t blank = line.find_last_of(" \t");
  if (blank == std::string_view::npos) return {line, std::nullopt};
  const std::string_view digits = line.substr(blank + 1);
  std::uint32_t label = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
  if (error != std::errc() || end != digits.data() + digits.size() || label == UINT32_MAX) return {line, std::nullopt};
  return {line.substr(0, blank), label};
}

// Reads a sample list. A line without a label gets the rank of its top folder among the folders of the root, which is
// what ImageFolder would give it.
class ListReader {
 public:
  ListReader(const Catalog& tree, Ways ways) : tree_(tree), ways_(ways) {
    const Catalog::Range children = tree.children(kRootEntry);
    std::uint32_t rank = 0;
    for (EntryId child = children.first; child < children.first + children.count; ++child) {
      ranks_.push_back(rank);
      if (tree.is_directory(child)) ++rank;
    }
  }

  // False: the line names no file of the tree.
  bool add(std::string line);
  Listing finish(ListingRule rule);

 private:
  std::uint32_t rank_of(std::string_view path) const;

  const Catalog& tree_;
  const Ways ways_;
  std::vector<std::uint32_t> ranks_;  // by child of the root
  Listing listing_;
};

std::uint32_t ListReader::rank_of(std::string_view path) const {
  const std::optional<EntryId> top = tree_.find(kRootEntry, path.substr(0, path.find('/')));
  return top && tree_.is_directory(*top) ? ranks_[*top - tree_.children(kRootEntry).first] : 0;
}

bool ListReader::add(std::string line) {
  if (line.ends_with('\r') && !tree_.find(line)) line.pop_back();
  if (line.empty()) return true;
  ListLine parts{line, std::nullopt};
  std::optional<EntryId> entry = tree_.find(line);
  if (!entry) {
    parts = split_label(line);
    entry = tree_.find(parts.path);
  }
  if (!entry || tree_.is_directory(*entry)) return false;
  if (ways_ == Ways::kYes) note_way(tree_, *entry, parts.path, listing_);
  listing_.samples.push_back(*entry);
  listing_.labels.push_back(parts.label ? *parts.label : rank_of(parts.path));
  return true;
}

Listing ListReader::finish(ListingRule rule) {
  listing_.rule = rule;
  for (const std::uint32_t label : listing_.labels) listing_.class_count = std::max(listing_.class_count, label + 1);
  return std::move(listing_);
}

// Paths have 4096 bytes at most (PATH_MAX), and a label may follow.
constexpr std::size_t kListLineBytesMax = 8192;

Result<Listing> list_from_file(const Catalog& tree, const CatalogOptions& options, Ways ways) {
  const std::string name = "sample list " + options.sample_list.string();
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(options.sample_list, failure);
  if (failure) return io::system_error(failure.value(), name);
  // The list is read anew at each start to see whether it has changed. A pipe can be read only once.
  if (!std::filesystem::is_regular_file(status)) {
    return io::make_error(io::ErrorCode::kInvalidArgument, name + ": is no regular file; write the list into one");
  }
  std::ifstream stream(options.sample_list, std::ios::binary);
  if (!stream) return io::system_error(errno, name);
  ListReader reader(tree, ways);
  std::vector<char> line(kListLineBytesMax);
  std::size_t number = 1;
  for (; stream.getline(line.data(), static_cast<std::streamsize>(line.size())); ++number) {
    const std::size_t length = static_cast<std::size_t>(stream.gcount()) - (stream.eof() ? 0 : 1);  // of the line end
    std::string text(line.data(), length);
    if (reader.add(text)) continue;
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("{}, line {}: no file of the source: {}", name, number, text));
  }
  if (!stream.eof()) {
    return io::make_error(
        io::ErrorCode::kInvalidArgument,
        fmt::format("{}, line {}: cannot be read, or has more than {} bytes", name, number, kListLineBytesMax));
  }
  return reader.finish(options.listing);
}

Result<Listing> list_all(const Catalog& tree, const CatalogOptions& options, Ways ways) {
  if (!options.sample_list.empty()) return list_from_file(tree, options, ways);
  Listing listing = Lister(tree, options.listing, ways).list();
  if (!listing.samples.empty() || options.listing == ListingRule::kSorted) return listing;
  listing = Lister(tree, ListingRule::kSorted, ways).list();
  if (!listing.samples.empty()) {
    io::log_warning("listing: the rule selects no file; the samples are all {} files sorted by path",
                    listing.samples.size());
  }
  return listing;
}

}  // namespace

Result<Listing> list_samples(const Catalog& tree, const CatalogOptions& options) {
  return list_all(tree, options, Ways::kNo);
}

Result<LoaderPaths> loader_paths(const Catalog& tree, const CatalogOptions& options) {
  bool has_links = false;
  for (EntryId entry = 0; entry < tree.entry_count() && !has_links; ++entry) has_links = tree.is_symlink(entry);
  if (!has_links) return LoaderPaths();
  HEADRACE_TRY(listing, list_all(tree, options, Ways::kYes));
  return std::move(listing.ways);
}

std::string loader_path(const Catalog& tree, const LoaderPaths& paths, SampleIndex sample) {
  const auto way = paths.find(sample);
  return way != paths.end() ? way->second : tree.path(tree.sample_entry(sample));
}

std::uint64_t hash_sample_list(const std::filesystem::path& list) {
  if (list.empty()) return 0;
  std::error_code failure;
  if (!std::filesystem::is_regular_file(list, failure)) return 1;  // reading the list will say what is wrong with it
  std::ifstream stream(list, std::ios::binary);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> chunk(std::size_t{1} << 16);
  while (stream.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || stream.gcount() > 0) {
    XXH3_64bits_update(state.get(), chunk.data(), static_cast<std::size_t>(stream.gcount()));
  }
  return XXH3_64bits_digest(state.get()) | 1U;  // never 0
}

}  // namespace headrace::cache
