// SPDX-License-Identifier: Apache-2.0
// An overlayfs over a mount, at the same path. Python before 3.14 sends ioctl(TCGETS) on every open(), which FUSE
// cannot remember as refused; overlayfs refuses it in the kernel. It passes everything else through, and the pages stay
// those of the mount below. Without a scratch folder it is read-only. With one, what is written goes there: new files,
// and a copy of each file that is opened for writing.
//
//   Status placed = mount_overlay("/mnt/imagenet");
//
//   HEADRACE_TRY(scratch, ScratchFolder::take("/nvme/scratch"));
//   Status placed = mount_overlay("/mnt/imagenet", &scratch);
//
// Thread-safety: any thread.
#pragma once

#include <filesystem>
#include <utility>

#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

// Where an overlay keeps what is written: upper/ has the files as they are called below the mount point, work/ is the
// kernel's. It is this object's alone for as long as it lives: two overlays that write to one folder would damage it.
class ScratchFolder {
 public:
  // Makes the folder where there is none. Errors: kBusy (another mount has it), kPermission, kNoSpace, kSystem.
  [[nodiscard]] static io::Result<ScratchFolder> take(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  ScratchFolder(std::filesystem::path path, io::UniqueFd folder) : path_(std::move(path)), folder_(std::move(folder)) {}

  std::filesystem::path path_;
  io::UniqueFd folder_;  // locked
};

// Errors: kPermission (not root), kUnsupported (no overlayfs in this kernel, not over this, or the scratch folder lies
// on a file system that overlayfs does not write to), kSystem.
[[nodiscard]] io::Status mount_overlay(const std::filesystem::path& path, const ScratchFolder* scratch = nullptr);

// What lies below has other names now. Which names there were, and which were looked for in vain, the overlay forgets.
// Errors: kSystem.
[[nodiscard]] io::Status forget_names_of_overlay(const std::filesystem::path& path, bool is_writable);

}  // namespace headrace::fuse
