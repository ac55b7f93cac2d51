// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/overlay.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "headrace/fuse/kernel/mount_table.h"

namespace headrace::fuse {
namespace fs = std::filesystem;
using io::Status;

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

}  // namespace

Status mount_overlay(const fs::path& path) {
  if (::geteuid() != 0) return io::system_error(EPERM, "overlay over " + path.string() + " needs root");
  HEADRACE_TRY_DO(make_empty_layer());
  const int below = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (below < 0) return io::system_error(errno, "overlay over " + path.string());
  // By descriptor: colons and commas in the path would need escapes that kernels treat differently.
  const std::string layers = "lowerdir=/proc/self/fd/" + std::to_string(below) + ":" + kEmptyLayer;
  const int mounted = ::mount(std::string(kOverlaySource).c_str(), path.c_str(), "overlay",
                              MS_RDONLY | MS_NOSUID | MS_NODEV, layers.c_str());
  const int failure = errno;
  ::close(below);
  if (mounted != 0) return io::system_error(failure, "overlay over " + path.string());
  return {};
}

}  // namespace headrace::fuse
