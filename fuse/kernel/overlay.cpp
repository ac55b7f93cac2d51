// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/overlay.h"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "headrace/cache/same_entries.h"
#include "headrace/fuse/kernel/mount_table.h"
#include "headrace/io/open_beneath.h"

namespace headrace::fuse {
namespace fs = std::filesystem;
using cache::EntryId;
using io::Result;
using io::Status;
using io::UniqueFd;

namespace {

constexpr const char* kAcl = "system.posix_acl_access";
// 4 MiB. Who is forgotten here is found when he asks the time after.
constexpr std::size_t kAskedMax = 65'536;

// By descriptor: colons and commas in a path would need escapes that kernels treat differently.
std::string path_of(const UniqueFd& folder) {
  return "/proc/self/fd/" + std::to_string(folder.get());
}

struct Option {
  const char* name;
  std::string value;
};

// A mount that is at no place yet.
Result<UniqueFd> make_mount(const char* type, const std::vector<Option>& options) {
  const UniqueFd context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context.valid()) return io::system_error(errno, std::string("overlay: open ") + type);
  for (const Option& option : options) {
    if (::fsconfig(context.get(), FSCONFIG_SET_STRING, option.name, option.value.c_str(), 0) != 0)
      return io::system_error(errno, std::string("overlay: ") + option.name);
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return io::system_error(errno, std::string("overlay: make ") + type);
  UniqueFd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  if (!mount.valid()) return io::system_error(errno, std::string("overlay: mount ") + type);
  return mount;
}

Status set_read_only(const UniqueFd& mount, bool is_read_only) {
  struct mount_attr attributes {};
  (is_read_only ? attributes.attr_set : attributes.attr_clr) = MOUNT_ATTR_RDONLY;
  if (::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) == 0) return {};
  return io::system_error(errno, "overlay: who may write");
}

// The upper layer of an overlay that nobody writes to. Older kernels take a layer only from a mount that has a place;
// so it has one for a moment, and lives on in the overlay.
class MemoryLayers {
 public:
  static Result<MemoryLayers> make() {
    MemoryLayers layers;
    if (::mkdtemp(layers.place_.data()) == nullptr) return io::system_error(errno, "overlay: make " + layers.place_);
    layers.has_place_ = true;
    HEADRACE_TRY(mount, make_mount("tmpfs", {{"source", std::string(kOverlaySource)}, {"mode", "0700"}}));
    if (::move_mount(mount.get(), "", AT_FDCWD, layers.place_.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
      return io::system_error(errno, "overlay: mount " + layers.place_);
    HEADRACE_TRY(folders, LayerFolders::open(mount));
    layers.folders_ = std::move(folders);
    return layers;
  }
  ~MemoryLayers() {
    if (!has_place_) return;
    ::umount2(place_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    ::rmdir(place_.c_str());
  }
  MemoryLayers(MemoryLayers&& other) noexcept
      : place_(std::move(other.place_)),
        has_place_(std::exchange(other.has_place_, false)),
        folders_(std::move(other.folders_)) {}
  MemoryLayers& operator=(MemoryLayers&&) = delete;
  MemoryLayers(const MemoryLayers&) = delete;
  MemoryLayers& operator=(const MemoryLayers&) = delete;

  [[nodiscard]] const LayerFolders& folders() const { return folders_; }

 private:
  MemoryLayers() = default;
  std::string place_ = "/run/headrace-overlay-XXXXXX";
  bool has_place_ = false;
  LayerFolders folders_;
};

// The index and its relatives name files below by what another mount would not give again.
Result<UniqueFd> make_overlay(const UniqueFd& below, const LayerFolders& layers) {
  return make_mount("overlay", {{"source", std::string(kOverlaySource)},
                                {"lowerdir", path_of(below)},
                                {"upperdir", path_of(layers.upper)},
                                {"workdir", path_of(layers.work)},
                                {"index", "off"},
                                {"redirect_dir", "off"},
                                {"metacopy", "off"}});
}

// The root of an overlay has the times of its upper layer.
Status copy_times(const UniqueFd& from, const UniqueFd& to) {
  struct stat status {};
  if (::fstat(from.get(), &status) != 0) return io::system_error(errno, "overlay: look at what it covers");
  const struct timespec times[] = {status.st_atim, status.st_mtim};
  return ::futimens(to.get(), times) == 0 ? Status{} : io::system_error(errno, "overlay: set the time of its root");
}

// A way to the overlay's files that only this process has, and by which it may write.
Result<UniqueFd> open_for_changes(const fs::path& path) {
  UniqueFd root(::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW));
  if (!root.valid()) return io::system_error(errno, "overlay over " + path.string());
  HEADRACE_TRY_DO(set_read_only(root, false));
  return root;
}

// The kernel drops the names of a file system that is configured anew, with changes or without (reconfigure_super() in
// Linux 6.18). Those that are in use stay.
Status drop_names(const UniqueFd& root) {
  const UniqueFd context(::fspick(root.get(), "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
  const bool done = context.valid() && ::fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) == 0;
  return done ? Status{} : io::system_error(errno, "overlay: forget names");
}

// The overlay checks a mode of its own, which only a change reaches; stat() asks the mount below and shows another one.
// A copy of a folder may have an ACL, which the mount below never has.
Status make_as(const UniqueFd& folder, const cache::AttributeClass& wanted) {
  const std::string path = path_of(folder);
  const bool has_acl = ::getxattr(path.c_str(), kAcl, nullptr, 0) >= 0;
  const bool done = (!has_acl || ::removexattr(path.c_str(), kAcl) == 0) &&
                    ::fchownat(folder.get(), "", wanted.uid, wanted.gid, AT_EMPTY_PATH) == 0 &&
                    ::chmod(path.c_str(), wanted.mode & 07777U) == 0;
  return done ? Status{} : io::system_error(errno, "give it the mode and owner that it has in the source");
}

}  // namespace

Status Overlay::place(const fs::path& scratch) {
  if (::geteuid() != 0) return io::system_error(EPERM, "overlay over " + path_.string() + " needs root");
  if (!scratch.empty()) {
    Result<ScratchFolder> taken = ScratchFolder::take(scratch);
    // Of a process that was killed and cannot end the overlay stays, and with the process its lock.
    if (!taken && !is_there_) return io::forward_error(std::move(taken));
    if (taken) scratch_.emplace(std::move(*taken));
  }
  if (is_there_) return {};
  HEADRACE_TRY_DO(place_new());
  is_there_ = true;
  return {};
}

Status Overlay::place_new() {
  const UniqueFd below(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!below.valid()) return io::system_error(errno, "overlay over " + path_.string());
  std::optional<MemoryLayers> memory;
  if (!scratch_) {
    HEADRACE_TRY(made, MemoryLayers::make());
    memory.emplace(std::move(made));
  }
  const LayerFolders& layers = scratch_ ? scratch_->layers() : memory->folders();
  if (layers.is_new) HEADRACE_TRY_DO(copy_times(below, layers.upper));
  Result<UniqueFd> mount = make_overlay(below, layers);
  if (!mount && scratch_ && mount.error().os_errno == EINVAL) {
    return io::make_error(io::ErrorCode::kUnsupported,
                          "scratch folder " + scratch_->path().string() +
                              ": overlayfs does not write to its file system; give one on ext4, xfs, btrfs or tmpfs");
  }
  if (!mount) return io::forward_error(std::move(mount));
  // Before anybody sees it: the copies of folders in the upper layer may be of long ago.
  HEADRACE_TRY_DO(show_folders(*mount, scratch_ ? scratch_->copied_folders(catalog_) : std::vector{cache::kRootEntry}));
  if (!scratch_) HEADRACE_TRY_DO(set_read_only(*mount, true));
  if (::move_mount(mount->get(), "", below.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0)
    return {};
  return io::system_error(errno, "overlay over " + path_.string());
}

Status Overlay::forget(std::span<const EntryId> entries) {
  if (!is_there_) return {};
  std::vector<EntryId> folders;
  for (const EntryId entry : entries) {
    if (catalog_.is_directory(entry)) folders.push_back(entry);
  }
  HEADRACE_TRY(root, open_for_changes(path_));
  {
    io::MutexLock lock(mutex_);
    asked_.clear();
  }
  Status dropped = drop_names(root);
  Status shown = show_folders(root, folders);
  if (shown) return dropped;
  ::chmod(path_of(root).c_str(), 0700);
  return shown;
}

Status Overlay::forget_since(const cache::Catalog& before) {
  const std::vector<EntryId> same = cache::same_entries(before, catalog_);
  std::vector<EntryId> others;
  for (EntryId entry = 0; entry < catalog_.entry_count(); ++entry) {
    const EntryId was = same[entry];
    if (!catalog_.is_directory(entry) || was == cache::kNoEntry) continue;
    const bool is_touched = before.identity(was).ctime_ns != catalog_.identity(entry).ctime_ns;
    if (is_touched && show_(entry) != before.attributes(was)) others.push_back(entry);
  }
  return forget(others);
}

bool Overlay::is_asked_again(std::uint64_t inode) {
  if (!is_there_) return false;
  io::MutexLock lock(mutex_);
  if (asked_.size() >= kAskedMax) asked_.clear();
  return !asked_.insert(inode).second;
}

Status Overlay::show_folders(const UniqueFd& root, std::span<const EntryId> folders) const {
  Status all;
  for (const EntryId folder : folders) {
    Status shown = show_folder(root, folder);
    if (!shown && all) all = std::move(shown);
  }
  return all;
}

// A folder that a program has removed or put another one in place of is not the source's any more.
Status Overlay::show_folder(const UniqueFd& root, EntryId folder) const {
  const std::string path = folder == cache::kRootEntry ? "." : catalog_.path(folder);
  if (folder != cache::kRootEntry && scratch_ && scratch_->has_replaced(path)) return {};
  const int opened = io::open_beneath(root.get(), path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (opened == -ENOENT || opened == -ENOTDIR || opened == -ELOOP || opened == -ESTALE) return {};
  if (opened < 0) return io::system_error(-opened, "overlay: folder " + path);
  const Status made = make_as(UniqueFd(opened), show_(folder));
  return made ? Status{}
              : io::make_error(made.error().code, "overlay: folder " + path + ": " + made.error().context,
                               made.error().os_errno);
}

}  // namespace headrace::fuse
