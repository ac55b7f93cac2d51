// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/overlay.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/fuse/kernel/mount_table.h"

namespace headrace::fuse {
namespace fs = std::filesystem;
using io::Result;
using io::Status;
using io::UniqueFd;

namespace {

// The second layer, which overlayfs insists on. All overlays share it and it stays: a layer that is removed makes every
// listing of the overlay empty (seen on 6.18). Not below /run/headrace, which is private to the control sockets.
constexpr const char* kEmptyLayer = "/run/headrace-empty";

Status make_empty_layer() {
  std::error_code failure;
  fs::create_directories(kEmptyLayer, failure);
  if (failure) return io::system_error(failure.value(), std::string("overlay: ") + kEmptyLayer);
  const bool empty = fs::is_empty(kEmptyLayer, failure);
  if (failure) return io::system_error(failure.value(), std::string("overlay: ") + kEmptyLayer);
  if (!empty) return io::system_error(ENOTEMPTY, std::string("overlay: ") + kEmptyLayer);
  return {};
}

// By descriptor: colons and commas in a path would need escapes that kernels treat differently.
std::string layer(const UniqueFd& folder) {
  return "/proc/self/fd/" + std::to_string(folder.get());
}

Result<UniqueFd> open_folder(const fs::path& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return io::system_error(errno, "overlay: " + path.string());
  return folder;
}

// The root of an overlay is as its upper layer is, so that a new one is made like what it covers.
Result<UniqueFd> open_upper(const fs::path& path, const UniqueFd& below) {
  struct stat status {};
  if (::fstat(below.get(), &status) != 0) return io::system_error(errno, "overlay: look at what it covers");
  const bool is_new = ::mkdir(path.c_str(), 0700) == 0;
  if (!is_new && errno != EEXIST) return io::system_error(errno, "make " + path.string());
  HEADRACE_TRY(upper, open_folder(path));
  if (!is_new) return upper;
  const struct timespec times[] = {status.st_atim, status.st_mtim};
  const bool is_alike = ::fchown(upper.get(), status.st_uid, status.st_gid) == 0 &&
                        ::fchmod(upper.get(), status.st_mode & 07777U) == 0 && ::futimens(upper.get(), times) == 0;
  if (!is_alike) return io::system_error(errno, "make " + path.string() + " like what it covers");
  return upper;
}

Status mount_over(const fs::path& path, const std::string& layers, unsigned long flags) {
  const int mounted = ::mount(std::string(kOverlaySource).c_str(), path.c_str(), "overlay",
                              MS_NOSUID | MS_NODEV | flags, layers.c_str());
  return mounted == 0 ? Status{} : io::system_error(errno, "overlay over " + path.string());
}

Status mount_read_only(const fs::path& path, const UniqueFd& below) {
  HEADRACE_TRY_DO(make_empty_layer());
  return mount_over(path, "lowerdir=" + layer(below) + ":" + kEmptyLayer, MS_RDONLY);
}

// The index and its relatives name files below by what another mount would not give again.
Status mount_writable(const fs::path& path, const UniqueFd& below, const fs::path& scratch) {
  const fs::path work_path = scratch / "work";
  if (::mkdir(work_path.c_str(), 0700) != 0 && errno != EEXIST) {
    return io::system_error(errno, "make " + work_path.string());
  }
  HEADRACE_TRY(upper, open_upper(scratch / "upper", below));
  HEADRACE_TRY(work, open_folder(work_path));
  Status mounted = mount_over(path,
                              "lowerdir=" + layer(below) + ",upperdir=" + layer(upper) + ",workdir=" + layer(work) +
                                  ",index=off,redirect_dir=off,metacopy=off",
                              0);
  if (mounted || mounted.error().os_errno != EINVAL) return mounted;
  return io::make_error(io::ErrorCode::kUnsupported,
                        "scratch folder " + scratch.string() +
                            ": overlayfs does not write to its file system; give one on ext4, xfs, btrfs or tmpfs");
}

}  // namespace

Result<ScratchFolder> ScratchFolder::take(const fs::path& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure) return io::system_error(failure.value(), "scratch folder " + path.string());
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return io::system_error(errno, "scratch folder " + path.string());
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return ScratchFolder(path, std::move(folder));
  if (errno != EWOULDBLOCK) return io::system_error(errno, "scratch folder " + path.string());
  return io::make_error(io::ErrorCode::kBusy,
                        "scratch folder " + path.string() + " is another mount's; give each mount one of its own");
}

Status mount_overlay(const fs::path& path, const ScratchFolder* scratch) {
  if (::geteuid() != 0) return io::system_error(EPERM, "overlay over " + path.string() + " needs root");
  const UniqueFd below(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!below.valid()) return io::system_error(errno, "overlay over " + path.string());
  return scratch != nullptr ? mount_writable(path, below, scratch->path()) : mount_read_only(path, below);
}

// The kernel drops the names of a file system that is mounted once more with other flags, or the same (do_remount() in
// Linux 6.18). Those that are in use stay.
Status forget_names_of_overlay(const fs::path& path, bool is_writable) {
  const unsigned long flags = MS_REMOUNT | MS_NOSUID | MS_NODEV | (is_writable ? 0 : MS_RDONLY);
  if (::mount(nullptr, path.c_str(), nullptr, flags, nullptr) == 0) return {};
  return io::system_error(errno, "overlay over " + path.string());
}

}  // namespace headrace::fuse
