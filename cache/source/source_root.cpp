// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/source_root.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "headrace/io/log.h"
#include "headrace/io/open_beneath.h"
#include "headrace/io/scanner.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::UniqueFd;

UniqueFd open_directory(const std::filesystem::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Asks the server where there is one, past what the kernel remembers. A directory that was removed has no links left.
bool is_alive(int fd) {
  struct statx about {};
  const int flags = AT_EMPTY_PATH | AT_STATX_FORCE_SYNC;
  return ::statx(fd, "", flags, STATX_TYPE | STATX_NLINK, &about) == 0 && about.stx_nlink > 0;
}

// Without a saved catalog there is nothing to compare with: the scan that follows says what is there.
Status check_same_data_set(const SourceRoot& root, const SourceRootOptions& options) {
  if (options.catalog_file.empty()) return {};
  const Result<Catalog> saved = Catalog::load(options.catalog_file);
  if (!saved || root.is_root_of(*saved)) return {};
  return io::make_error(ErrorCode::kStale,
                        fmt::format("source {}: unmounted; another folder is at its path", options.path.string()));
}

}  // namespace

SourceRoot::SourceRoot(UniqueFd directory)
    : directory_(std::move(directory)),
      file_system_(io::describe_file_system(fd())),
      page_cache_(fd(), file_system_.in_memory) {
  struct stat info {};
  if (::fstat(fd(), &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

std::shared_ptr<SourceRoot> SourceRoot::find_remount(const std::filesystem::path& path) const {
  UniqueFd fd = open_directory(path);
  if (!fd.valid()) return nullptr;
  auto found = std::make_shared<SourceRoot>(std::move(fd));
  return found->device_ == device_ && found->inode_ == inode_ ? nullptr : found;
}

// One call, in place of three, where the file lies in the file system of the root: whatever links lead there, it has no
// other file of this identity.
bool SourceRoot::has_file(const char* path, const Identity& identity) const {
  struct stat status {};
  if (::fstatat(fd(), path, &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (status.st_dev == device_) return io::attributes_from(status) == identity;
  const UniqueFd file(io::open_beneath(fd(), path, O_PATH | O_CLOEXEC));
  if (!file.valid()) return false;
  const Result<Identity> found = io::attributes_of(file.get());
  return found && *found == identity;
}

Result<Catalog> SourceRoot::open_catalog(const CatalogOptions& options, const std::filesystem::path& file) const {
  return cache::open_catalog(fd(), options, file);
}

Result<CatalogChanges> SourceRoot::find_changes(const Catalog& catalog, const RevalidateOptions& options) const {
  return cache::find_changes(catalog, fd(), options);
}

Result<io::ScannedAttributes> SourceRoot::look_at(const std::string& path) const {
  return io::read_attributes(fd(), path);
}

// By a descriptor: whoever may write to the source could put a link to a file without an ACL into the path.
std::optional<bool> SourceRoot::has_acl(const std::string& path) const {
  const UniqueFd entry(io::open_beneath(fd(), path.empty() ? "." : path.c_str(), O_PATH | O_CLOEXEC));
  if (!entry.valid()) return entry.get() == -ENOENT || entry.get() == -ENOTDIR ? std::optional(false) : std::nullopt;
  const std::string reached = "/proc/self/fd/" + std::to_string(entry.get());
  if (::getxattr(reached.c_str(), "system.posix_acl_access", nullptr, 0) >= 0) return true;
  if (errno == ENODATA || errno == ENOTSUP || errno == ENOENT || errno == ENOTDIR) return false;
  return std::nullopt;
}

bool SourceRoot::is_root_of(const Catalog& catalog) const {
  const std::uint64_t inode = catalog.identity(kRootEntry).inode;
  return inode == 0 ? !file_system_.has_lasting_inodes : inode == inode_;
}

Result<std::shared_ptr<SourceRoot>> open_source_root(const SourceRootOptions& options) {
  const bool given = options.directory_fd >= 0;
  if (given && (options.path_covered || is_alive(options.directory_fd))) {
    UniqueFd copy(::fcntl(options.directory_fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return io::system_error(errno, "open " + options.path.string());
    return std::make_shared<SourceRoot>(std::move(copy));
  }
  UniqueFd fd = open_directory(options.path);
  if (!fd.valid() && errno == ENOTDIR) {
    return io::make_error(ErrorCode::kInvalidArgument, options.path.string(), ENOTDIR);
  }
  if (!fd.valid()) return io::system_error(errno, options.path.string());
  auto root = std::make_shared<SourceRoot>(std::move(fd));
  if (!given) return root;
  HEADRACE_TRY_DO(check_same_data_set(*root, options));
  io::log_info("source {}: was unmounted and is used as it is mounted now", options.path.string());
  return root;
}

}  // namespace headrace::cache
