// SPDX-License-Identifier: Apache-2.0
// The data set's tree as it was when it was scanned: every directory, file and symlink, with stable numbers.
//
//   auto catalog = Catalog::scan("/data/imagenet", {.listing = ListingRule::kImageFolder});
//   for (SampleIndex i = 0; i < catalog->sample_count(); ++i) use(catalog->path(catalog->sample_entry(i)));
//
// Entries are laid out breadth first. The children of a directory lie together, sorted by the bytes of their names, so
// that a look-up is a binary search. Entry 0 is the root. The mount's inode number is EntryId + 1 (kRootInode), so
// nothing has to be remembered across a restart. Samples are the entries that the listing rule selects, in its order:
// sample i is what the loader calls dataset[i].
//
// Memory: 48 bytes per entry plus its name, 8 per sample, 16 per directory: 78 bytes per file of ImageNet. Limits: 2^32
// entries, 4 GiB of names (about 200 M files), 65 536 combinations of mode, owner and group.
// Thread-safety: immutable after construction; any thread may use it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "headrace/io/file_attributes.h"
#include "headrace/io/result.h"

namespace headrace::cache {

using io::Result;
using io::Status;

using EntryId = std::uint32_t;
using SampleIndex = std::uint32_t;
inline constexpr EntryId kRootEntry = 0;
inline constexpr EntryId kNoEntry = UINT32_MAX;
inline constexpr SampleIndex kNoSample = UINT32_MAX;

// Which files are samples, and in which order (cache/listing.h has the rules).
enum class ListingRule : std::uint8_t { kImageFolder, kTimm, kDali, kKeras, kSorted };

struct CatalogOptions {
  ListingRule listing = ListingRule::kImageFolder;  // where it finds no sample, kSorted is used, and the log says so
  std::filesystem::path sample_list;  // a file of relative paths, one per line: these are the samples, in this order
  unsigned scan_threads = 0;          // 0: chosen from the cores (directory reads wait for the device)
  // What cannot be read is left out, and unreadable() counts it. False: a scan that meets such a folder or file fails.
  bool accept_unreadable = false;
};

// What identifies the content of a file: as long as it stays the same, cached bytes are good. No program can set ctime,
// so content that was replaced under its old size, mtime and inode (rsync --inplace -t) is noticed all the same. ctime
// also changes with mode, owner and links; then the file is fetched again.
using Identity = io::FileAttributes;

// Attributes of which many files share few combinations. Each combination is stored once.
struct AttributeClass {
  mode_t mode = 0;  // type and permission bits
  uid_t uid = 0;
  gid_t gid = 0;
  friend bool operator==(const AttributeClass&, const AttributeClass&) = default;
};

class Catalog {
 public:
  // Scans `source`. Errors: as opening the source; those of the first folder or file that cannot be read, which the
  // error names; kInvalidArgument (not a directory; list names a missing file); kUnsupported (a tree beyond the limits
  // above).
  [[nodiscard]] static Result<Catalog> scan(const std::filesystem::path& source, const CatalogOptions& options);
  // As scan(), from an open directory: for a source that a mount has been laid over.
  [[nodiscard]] static Result<Catalog> scan_fd(int source_fd, const CatalogOptions& options);
  // The saved form is a header, the arrays and an XXH3 (cache/catalog/catalog_file.cpp). save() replaces `file` at once
  // or not at all. For later starts only a catalog of all that there is may be saved: unreadable() is 0.
  // Errors of load: kNotFound, kCorrupt (whatever is wrong with the content), kUnsupported (another version).
  [[nodiscard]] Status save(const std::filesystem::path& file) const;
  [[nodiscard]] static Result<Catalog> load(const std::filesystem::path& file);
  // The same with an open file, for a process that takes over from this one.
  [[nodiscard]] Status save_fd(int fd) const;
  [[nodiscard]] static Result<Catalog> load_fd(int fd);
  // Made by load() or load_fd(): what lies in the files may have changed since, without a trace in their folders.
  [[nodiscard]] bool was_saved() const { return was_saved_; }
  // Whether a scan with these options would list the samples in the same way (for a catalog that was loaded).
  [[nodiscard]] bool fits(const CatalogOptions& options) const;

  [[nodiscard]] std::size_t entry_count() const;
  [[nodiscard]] std::size_t skipped() const;     // left out: what could not be read, special files, FUSE mounts
  [[nodiscard]] std::size_t unreadable() const;  // of these, what could not be read: samples may be missing

  [[nodiscard]] const AttributeClass& attributes(EntryId entry) const;
  [[nodiscard]] bool is_directory(EntryId entry) const;
  [[nodiscard]] bool is_file(EntryId entry) const;
  [[nodiscard]] bool is_symlink(EntryId entry) const;
  [[nodiscard]] Identity identity(EntryId entry) const;
  [[nodiscard]] std::uint64_t size_bytes(EntryId entry) const;  // directories and symlinks: as lstat reports
  [[nodiscard]] std::string_view name(EntryId entry) const;
  [[nodiscard]] EntryId parent(EntryId entry) const;    // root: itself
  [[nodiscard]] std::string path(EntryId entry) const;  // relative to the source; root: ""
  [[nodiscard]] std::string_view symlink_target(EntryId entry) const;

  struct Range {
    EntryId first = 0;
    EntryId count = 0;
  };
  [[nodiscard]] Range children(EntryId directory) const;
  [[nodiscard]] std::uint32_t subdirectory_count(EntryId directory) const;
  [[nodiscard]] std::optional<EntryId> find(EntryId directory, std::string_view name) const;
  // By a relative path. Symlinks inside the tree are followed, at most 40 in all, as the kernel does.
  [[nodiscard]] std::optional<EntryId> find(std::string_view path) const;
  // What a symlink stands for in the end. Other entries stand for themselves. nullopt: it is broken or leaves the tree.
  [[nodiscard]] std::optional<EntryId> resolve(EntryId entry) const;

  [[nodiscard]] SampleIndex sample_count() const;
  // The file that opening the sample opens. It lies behind symlinks inside the tree, so that two samples may share an
  // entry. A sample that is a symlink out of the tree keeps its index, and its entry is that symlink.
  [[nodiscard]] EntryId sample_entry(SampleIndex sample) const;
  [[nodiscard]] std::uint32_t sample_label(SampleIndex sample) const;  // class index of the listing rule; 0 if none
  [[nodiscard]] std::optional<SampleIndex> sample_of(EntryId entry) const;  // the first, where several share it
  [[nodiscard]] std::uint64_t sample_bytes() const;                         // sum over all samples
  [[nodiscard]] ListingRule listing() const;
  [[nodiscard]] std::size_t class_count() const;

 private:
  friend class CatalogBuilder;  // makes one from a scan
  friend class CatalogFile;     // the saved form

  struct Row {
    std::uint64_t size_bytes;
    std::int64_t mtime_ns;
    std::int64_t ctime_ns;
    std::uint64_t inode;
    std::uint32_t name_offset;
    EntryId parent;
    std::uint32_t detail;  // directory: its number; file: its first sample or kNoSample; symlink: bytes of its target
    std::uint16_t attribute_class;
    std::uint16_t name_bytes;  // of a symlink: its target follows the name
  };
  struct Directory {
    EntryId entry;
    EntryId first_child;
    EntryId child_count;
    std::uint32_t subdirectory_count;
  };
  // What was asked for. The rule in use may be the fall-back.
  struct Request {
    ListingRule listing = ListingRule::kImageFolder;
    std::uint64_t sample_list_hash = 0;  // of the list's content; 0: no list
    friend bool operator==(const Request&, const Request&) = default;
  };
  static_assert(sizeof(Row) == 48 && sizeof(Directory) == 16 && sizeof(AttributeClass) == 12,
                "these lie in the saved form");

  [[nodiscard]] mode_t type(EntryId entry) const;
  [[nodiscard]] std::optional<EntryId> walk(EntryId from, std::string_view path, unsigned& links_left) const;
  [[nodiscard]] std::optional<EntryId> follow(EntryId entry, unsigned& links_left) const;

  std::vector<Row> rows_;
  std::vector<Directory> directories_;  // in the order of their entries, and so are their children
  std::vector<AttributeClass> attributes_;
  std::vector<char> names_;
  std::vector<EntryId> samples_;
  std::vector<std::uint32_t> labels_;  // of the samples; empty: all 0
  std::string source_path_;            // resolves absolute symlinks that lead back into the tree; may be empty
  std::uint64_t sample_bytes_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t unreadable_ = 0;
  std::uint32_t class_count_ = 0;
  ListingRule listing_ = ListingRule::kSorted;
  bool was_saved_ = false;
  Request request_;
};

}  // namespace headrace::cache
