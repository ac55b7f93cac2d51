// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/scratch_folder.h"

#include <cerrno>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "headrace/io/log.h"
#include "headrace/io/own_folders.h"

namespace headrace::fuse {
namespace fs = std::filesystem;
using cache::EntryId;
using io::ErrorCode;
using io::Result;
using io::Status;
using io::UniqueFd;

namespace {

constexpr const char* kUpper = "upper";
constexpr const char* kWork = "work";

std::string named(const fs::path& path) {
  return "scratch folder " + path.string();
}

UniqueFd open_folder(int parent, const char* name) {
  return UniqueFd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// One name at a time, so that no link is followed: whoever may write to a folder above could put one there meanwhile.
Result<UniqueFd> make_folders(const fs::path& path) {
  UniqueFd folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const fs::path& name : path.relative_path()) {
    if (name.empty()) continue;  // behind the last slash
    const mode_t mode = name == path.filename() ? 0700 : 0755;
    if (::mkdirat(folder.get(), name.c_str(), mode) != 0 && errno != EEXIST && errno != EROFS)
      return io::system_error(errno, named(path));
    UniqueFd next = open_folder(folder.get(), name.c_str());
    if (!next.valid()) return io::system_error(errno, named(path));
    folder = std::move(next);
  }
  return folder;
}

bool holds_nothing_else(const UniqueFd& folder) {
  UniqueFd copy(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(copy.valid() ? ::fdopendir(copy.get()) : nullptr, ::closedir);
  if (listing == nullptr) return false;
  static_cast<void>(copy.release());                        // the listing's from here on
  while (const dirent* entry = ::readdir(listing.get())) {  // NOLINT(concurrency-mt-unsafe): a DIR of our own
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != kUpper && name != kWork && name != "lost+found") return false;
  }
  return true;
}

// One that an earlier version made is open to others.
Status make_private(const UniqueFd& folder, const fs::path& path) {
  struct stat info {};
  if (::fstat(folder.get(), &info) != 0) return io::system_error(errno, named(path));
  if (info.st_uid != ::geteuid())
    return io::make_error(ErrorCode::kPermission, named(path) + ": belongs to another user; give one of your own");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return io::make_error(ErrorCode::kPermission, named(path) + ": others may write to it (chmod 700 it)");
  if ((info.st_mode & 077U) == 0) return {};
  if (!holds_nothing_else(folder)) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          named(path) + ": holds other files, and others may enter it; give it a folder of its own");
  }
  if (::fchmod(folder.get(), 0700) != 0) return io::system_error(errno, named(path));
  io::log_info("{}: nobody else may enter it from now on", named(path));
  return {};
}

bool is_opaque(const UniqueFd& folder) {
  char value = 0;
  return ::fgetxattr(folder.get(), "trusted.overlay.opaque", &value, 1) == 1 && value == 'y';
}

void add_copied(const cache::Catalog& catalog, EntryId directory, const UniqueFd& copy, std::vector<EntryId>& found) {
  found.push_back(directory);
  const cache::Catalog::Range children = catalog.children(directory);
  for (EntryId child = children.first; child < children.first + children.count; ++child) {
    if (!catalog.is_directory(child)) continue;
    const UniqueFd folder = open_folder(copy.get(), std::string(catalog.name(child)).c_str());
    if (folder.valid() && !is_opaque(folder)) add_copied(catalog, child, folder, found);
  }
}

}  // namespace

Result<LayerFolders> LayerFolders::open(const UniqueFd& folder) {
  LayerFolders layers;
  for (const char* name : {kUpper, kWork}) {
    const bool is_new = ::mkdirat(folder.get(), name, 0700) == 0;
    if (!is_new && errno != EEXIST) return io::system_error(errno, std::string("make ") + name);
    UniqueFd opened = open_folder(folder.get(), name);
    if (!opened.valid()) return io::system_error(errno, std::string("open ") + name);
    const bool is_upper = std::string_view(name) == kUpper;
    if (is_upper) layers.is_new = is_new;
    (is_upper ? layers.upper : layers.work) = std::move(opened);
  }
  return layers;
}

Result<ScratchFolder> ScratchFolder::take(const fs::path& path) {
  HEADRACE_TRY_DO(io::check_links(path, named(path)));
  std::error_code failure;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path, failure), failure);
  if (failure) return io::system_error(failure.value(), named(path));
  HEADRACE_TRY(folder, make_folders(resolved));
  HEADRACE_TRY_DO(make_private(folder, path));
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return io::system_error(errno, named(path));
    return io::make_error(ErrorCode::kBusy, named(path) + " is another mount's; give each mount one of its own");
  }
  Result<LayerFolders> layers = LayerFolders::open(folder);
  if (!layers) {
    const io::Error& error = layers.error();
    return io::make_error(error.code, named(path) + ": " + error.context, error.os_errno);
  }
  return ScratchFolder(path, std::move(folder), std::move(*layers));
}

std::vector<EntryId> ScratchFolder::copied_folders(const cache::Catalog& catalog) const {
  std::vector<EntryId> found;
  add_copied(catalog, cache::kRootEntry, layers_.upper, found);
  return found;
}

bool ScratchFolder::has_replaced(const std::string& path) const {
  UniqueFd folder(::openat(layers_.upper.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::istringstream names(path);
  for (std::string name; std::getline(names, name, '/');) {
    UniqueFd next = open_folder(folder.get(), name.c_str());
    if (!next.valid()) return errno != ENOENT;  // nothing there: what lies below is shown
    if (is_opaque(next)) return true;
    folder = std::move(next);
  }
  return false;
}

}  // namespace headrace::fuse
