// SPDX-License-Identifier: Apache-2.0
// The saved form of a catalog: a Header, then the arrays as they lie in memory, one right behind the other:
//
//   rows            row_count x 48          Catalog::Row
//   directories     directory_count x 16    Catalog::Directory
//   attributes      attribute_count x 12    AttributeClass
//   samples         sample_count x 4        EntryId
//   labels          label_count x 4         (label_count is sample_count or 0)
//   names           name_bytes              names; behind the name of a symlink its target
//   source path     source_path_bytes
//
// Numbers are in the byte order of the machine that wrote them; another machine's file fails the magic number. The
// checksum covers everything behind the header. It guards against torn writes and rot, not against malice: every number
// that leads somewhere is checked after loading as well, so that no file makes a lookup leave its array.
#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/cache/catalog.h"
#include "headrace/cache/catalog/draft.h"
#include "headrace/cache/saved_catalog.h"
#include "headrace/io/write_all.h"

namespace headrace::cache {
namespace {

constexpr std::uint64_t kMagic = 0x676c746361636872;  // "hrcactlg", read as a little-endian number
constexpr std::uint32_t kVersion = 2;                 // 2: rows have ctime

struct Header {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t header_bytes = sizeof(Header);
  std::uint64_t payload_hash = 0;  // XXH3-64 of what follows the header
  std::uint64_t row_count = 0;
  std::uint64_t directory_count = 0;
  std::uint64_t attribute_count = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t label_count = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t source_path_bytes = 0;
  std::uint64_t skipped = 0;
  std::uint64_t unreadable = 0;
  std::uint64_t sample_list_hash = 0;
  std::uint32_t class_count = 0;
  std::uint8_t listing = 0;
  std::uint8_t requested_listing = 0;
  std::uint16_t reserved = 0;
  std::uint64_t header_hash = 0;  // XXH3-64 of the header up to here
};
static_assert(sizeof(Header) == 120 && std::has_unique_object_representations_v<Header>);

std::uint64_t hash_of(const Header& header) {
  return XXH3_64bits(&header, offsetof(Header, header_hash));
}

Status read_all(int fd, void* data, std::size_t bytes, std::uint64_t offset, const std::string& name) {
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io::system_error(errno, "read " + name);
    if (got == 0) return io::make_error(io::ErrorCode::kCorrupt, name + ": ends early");
    to += got;
    bytes -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

tl::unexpected<io::Error> corrupt(const std::string& name, const char* what) {
  return io::make_error(io::ErrorCode::kCorrupt, name + ": " + what);
}

}  // namespace

class CatalogFile {
 public:
  CatalogFile(Catalog& catalog, std::string name) : catalog_(catalog), name_(std::move(name)) {}

  static Status save(const Catalog& catalog, int fd, const std::string& name);
  Status load(int fd);
  Result<SavedCatalog> describe(int fd);

 private:
  template <typename MaybeConstCatalog>
  static auto sections_of(MaybeConstCatalog& catalog);
  static std::uint64_t payload_hash(const Catalog& catalog);
  static Header header_of(const Catalog& catalog);
  Status read_header(int fd, Header& header);
  Status allocate(const Header& header, std::uint64_t file_bytes);
  // Each returns what is wrong, or null.
  const char* check_rows();
  const char* check_row(EntryId entry);
  const char* check_directories();
  const char* check_children(const Catalog::Directory& directory);
  const char* check_samples();

  Catalog& catalog_;
  const std::string name_;
};

template <typename MaybeConstCatalog>
auto CatalogFile::sections_of(MaybeConstCatalog& catalog) {
  const auto bytes_of = [](auto& array) {
    if constexpr (std::is_const_v<MaybeConstCatalog>) {
      return std::as_bytes(std::span(array));
    } else {
      return std::as_writable_bytes(std::span(array));
    }
  };
  return std::array{bytes_of(catalog.rows_),       bytes_of(catalog.directories_), bytes_of(catalog.attributes_),
                    bytes_of(catalog.samples_),    bytes_of(catalog.labels_),      bytes_of(catalog.names_),
                    bytes_of(catalog.source_path_)};
}

std::uint64_t CatalogFile::payload_hash(const Catalog& catalog) {
  XXH3_state_t* state = XXH3_createState();
  HEADRACE_ASSERT(state != nullptr);
  XXH3_64bits_reset(state);
  for (const auto section : sections_of(catalog)) XXH3_64bits_update(state, section.data(), section.size());
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

Header CatalogFile::header_of(const Catalog& catalog) {
  Header header;
  header.payload_hash = payload_hash(catalog);
  header.row_count = catalog.rows_.size();
  header.directory_count = catalog.directories_.size();
  header.attribute_count = catalog.attributes_.size();
  header.sample_count = catalog.samples_.size();
  header.label_count = catalog.labels_.size();
  header.name_bytes = catalog.names_.size();
  header.source_path_bytes = catalog.source_path_.size();
  header.skipped = catalog.skipped_;
  header.unreadable = catalog.unreadable_;
  header.sample_list_hash = catalog.request_.sample_list_hash;
  header.class_count = catalog.class_count_;
  header.listing = static_cast<std::uint8_t>(catalog.listing_);
  header.requested_listing = static_cast<std::uint8_t>(catalog.request_.listing);
  header.header_hash = hash_of(header);
  return header;
}

Status CatalogFile::save(const Catalog& catalog, int fd, const std::string& name) {
  const Header header = header_of(catalog);
  HEADRACE_TRY_DO(io::write_all(fd, std::as_bytes(std::span(&header, 1)), 0, name));
  std::uint64_t offset = sizeof header;
  for (const auto section : sections_of(catalog)) {
    HEADRACE_TRY_DO(io::write_all(fd, section, offset, name));
    offset += section.size();
  }
  if (::ftruncate(fd, static_cast<off_t>(offset)) != 0) return io::system_error(errno, "write " + name);
  return {};
}

Status CatalogFile::load(int fd) {
  Header header;
  if (Status done = read_header(fd, header); !done) return done;
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return io::system_error(errno, "stat " + name_);
  if (Status done = allocate(header, static_cast<std::uint64_t>(status.st_size)); !done) return done;
  std::uint64_t offset = sizeof header;
  for (const auto section : sections_of(catalog_)) {
    if (Status done = read_all(fd, section.data(), section.size(), offset, name_); !done) return done;
    offset += section.size();
  }
  if (payload_hash(catalog_) != header.payload_hash) return corrupt(name_, "the checksum is wrong");
  if (const char* problem = check_rows()) return corrupt(name_, problem);
  if (const char* problem = check_directories()) return corrupt(name_, problem);
  if (const char* problem = check_samples()) return corrupt(name_, problem);
  catalog_.was_saved_ = true;
  return {};
}

Result<SavedCatalog> CatalogFile::describe(int fd) {
  constexpr std::uint64_t kSourceBytesMax = 8192;  // PATH_MAX is 4096
  Header header;
  HEADRACE_TRY_DO(read_header(fd, header));
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return io::system_error(errno, "stat " + name_);
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (header.source_path_bytes > std::min(kSourceBytesMax, file_bytes)) return corrupt(name_, "bad header");
  SavedCatalog saved{.source = std::string(header.source_path_bytes, '\0'),
                     .entries = header.row_count,
                     .samples = header.sample_count};
  const std::uint64_t offset = file_bytes - header.source_path_bytes;  // it is the last of the file
  HEADRACE_TRY_DO(read_all(fd, saved.source.data(), saved.source.size(), offset, name_));
  return saved;
}

Status CatalogFile::read_header(int fd, Header& header) {
  if (Status done = read_all(fd, &header, sizeof header, 0, name_); !done) return done;
  if (header.magic != kMagic) return corrupt(name_, "not a catalog");
  if (header.version != kVersion) {
    return io::make_error(io::ErrorCode::kUnsupported, name_ + ": catalog format " + std::to_string(header.version) +
                                                           ", this program reads " + std::to_string(kVersion));
  }
  constexpr auto kLastRule = static_cast<std::uint8_t>(ListingRule::kSorted);
  if (header.header_hash != hash_of(header) || header.listing > kLastRule || header.requested_listing > kLastRule) {
    return corrupt(name_, "bad header");
  }
  catalog_.skipped_ = header.skipped;
  catalog_.unreadable_ = header.unreadable;
  catalog_.class_count_ = header.class_count;
  catalog_.listing_ = static_cast<ListingRule>(header.listing);
  catalog_.request_ = {.listing = static_cast<ListingRule>(header.requested_listing),
                       .sample_list_hash = header.sample_list_hash};
  return {};
}

// Makes the arrays. Their sizes must add up to the file's, so that a hostile header cannot ask for more memory.
Status CatalogFile::allocate(const Header& header, std::uint64_t file_bytes) {
  const std::array<std::array<std::uint64_t, 2>, 7> parts = {{{header.row_count, sizeof(Catalog::Row)},
                                                              {header.directory_count, sizeof(Catalog::Directory)},
                                                              {header.attribute_count, sizeof(AttributeClass)},
                                                              {header.sample_count, sizeof(EntryId)},
                                                              {header.label_count, sizeof(std::uint32_t)},
                                                              {header.name_bytes, 1},
                                                              {header.source_path_bytes, 1}}};
  std::uint64_t total = sizeof header;
  for (const auto& [count, bytes_each] : parts) {
    if (count > file_bytes) return corrupt(name_, "bad header");
    total += count * bytes_each;
  }
  if (total != file_bytes) return corrupt(name_, "the size is not what the header says");
  if (header.row_count == 0 || header.row_count > kNoEntry || header.directory_count == 0 ||
      header.attribute_count == 0 || header.sample_count >= kNoSample || header.name_bytes > UINT32_MAX ||
      (header.label_count != 0 && header.label_count != header.sample_count)) {
    return corrupt(name_, "bad header");
  }
  catalog_.rows_.resize(header.row_count);
  catalog_.directories_.resize(header.directory_count);
  catalog_.attributes_.resize(header.attribute_count);
  catalog_.samples_.resize(header.sample_count);
  catalog_.labels_.resize(header.label_count);
  catalog_.names_.resize(header.name_bytes);
  catalog_.source_path_.resize(header.source_path_bytes);
  return {};
}

// Names lie inside their array, one behind the other, and are what a directory can hold.
const char* CatalogFile::check_rows() {
  for (const AttributeClass& attributes : catalog_.attributes_) {
    const mode_t type = attributes.mode & S_IFMT;
    if (type != S_IFDIR && type != S_IFREG && type != S_IFLNK) return "bad file type";
  }
  for (EntryId entry = 0; entry < catalog_.rows_.size(); ++entry) {
    if (const char* problem = check_row(entry)) return problem;
  }
  return catalog_.is_directory(kRootEntry) ? nullptr : "the root is no directory";
}

const char* CatalogFile::check_row(EntryId entry) {
  const Catalog::Row& row = catalog_.rows_[entry];
  if (row.attribute_class >= catalog_.attributes_.size()) return "bad attributes";
  std::uint64_t end = std::uint64_t{row.name_offset} + row.name_bytes;
  if (catalog_.is_symlink(entry)) end += row.detail;
  if (end > catalog_.names_.size()) return "bad name";
  if (entry == kRootEntry) return row.name_bytes == 0 ? nullptr : "bad name";
  const std::string_view name = catalog_.name(entry);
  const bool plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
                     name.find('\0') == std::string_view::npos;
  return plain ? nullptr : "bad name";
}

// Directories and their children follow one another in the order of the entries, without gaps, each child behind its
// parent; so every entry has exactly one parent and every path ends at the root.
const char* CatalogFile::check_directories() {
  if (catalog_.rows_[kRootEntry].parent != kRootEntry || catalog_.directories_[0].entry != kRootEntry)
    return "bad root";
  std::uint64_t next_child = 1;
  EntryId last = kRootEntry;
  for (std::size_t number = 0; number < catalog_.directories_.size(); ++number) {
    const Catalog::Directory& directory = catalog_.directories_[number];
    if (directory.entry >= catalog_.rows_.size() || (number > 0 && directory.entry <= last)) return "bad directory";
    if (!catalog_.is_directory(directory.entry) || catalog_.rows_[directory.entry].detail != number) {
      return "bad directory";
    }
    if (directory.first_child != next_child || directory.first_child <= directory.entry) return "bad children";
    next_child += directory.child_count;
    if (next_child > catalog_.rows_.size()) return "bad children";
    if (const char* problem = check_children(directory)) return problem;
    last = directory.entry;
  }
  return next_child == catalog_.rows_.size() ? nullptr : "bad children";
}

const char* CatalogFile::check_children(const Catalog::Directory& directory) {
  std::uint32_t subdirectories = 0;
  for (EntryId i = 0; i < directory.child_count; ++i) {
    const EntryId child = directory.first_child + i;
    const Catalog::Row& row = catalog_.rows_[child];
    if (row.parent != directory.entry) return "bad parent";
    if (i > 0 && catalog_.name(child - 1) >= catalog_.name(child)) return "names out of order";
    if (!catalog_.is_directory(child)) continue;
    ++subdirectories;
    if (row.detail >= catalog_.directories_.size() || catalog_.directories_[row.detail].entry != child) {
      return "bad directory";
    }
  }
  return subdirectories == directory.subdirectory_count ? nullptr : "bad directory";
}

// A file's `detail` is the first sample that it is.
const char* CatalogFile::check_samples() {
  std::vector<SampleIndex> first_of(catalog_.rows_.size(), kNoSample);
  for (SampleIndex sample = 0; sample < catalog_.sample_count(); ++sample) {
    const EntryId entry = catalog_.samples_[sample];
    if (entry >= catalog_.rows_.size() || catalog_.is_directory(entry)) return "bad sample";
    if (catalog_.sample_label(sample) >= std::max(catalog_.class_count_, 1U)) return "bad label";
    if (first_of[entry] == kNoSample) first_of[entry] = sample;
    catalog_.sample_bytes_ += catalog_.size_bytes(entry);
  }
  for (EntryId entry = 0; entry < catalog_.rows_.size(); ++entry) {
    if (catalog_.is_file(entry) && catalog_.rows_[entry].detail != first_of[entry]) return "bad sample";
  }
  return nullptr;
}

Status Catalog::save(const std::filesystem::path& file) const {
  Draft draft(file);
  if (draft.fd() < 0) return io::system_error(errno, "create " + file.string());
  HEADRACE_TRY_DO(CatalogFile::save(*this, draft.fd(), file.string()));
  return draft.rename_to(file);
}

Status Catalog::save_fd(int fd) const {
  return CatalogFile::save(*this, fd, "the catalog for a successor");
}

Result<Catalog> Catalog::load_fd(int fd) {
  Catalog catalog;
  HEADRACE_TRY_DO(CatalogFile(catalog, "the catalog of a predecessor").load(fd));
  return catalog;
}

Result<SavedCatalog> describe_catalog(const std::filesystem::path& file) {
  const io::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return io::system_error(errno, file.string());
  Catalog catalog;
  return CatalogFile(catalog, file.string()).describe(fd.get());
}

Result<Catalog> Catalog::load(const std::filesystem::path& file) {
  const io::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return io::system_error(errno, file.string());
  Catalog catalog;
  HEADRACE_TRY_DO(CatalogFile(catalog, file.string()).load(fd.get()));
  return catalog;
}

}  // namespace headrace::cache
