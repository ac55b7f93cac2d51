// SPDX-License-Identifier: Apache-2.0
// An overlayfs over a mount, at the same path. Python before 3.14 sends ioctl(TCGETS) on every open(), which FUSE
// cannot remember as refused; overlayfs refuses it in the kernel. It passes everything else through, and the pages stay
// those of the mount below. Without a scratch folder it is read-only. With one, what is written goes there: new files,
// and a copy of each file that is opened for writing.
//
//   Overlay overlay(catalog, "/mnt/imagenet", [&](cache::EntryId folder) { return requests.attributes(folder); });
//   HEADRACE_TRY_DO(overlay.place("/nvme/scratch"));
//   overlay.forget(changed);   // after the kernel has forgotten them below
//
// overlayfs copies mode and owner when it first sees a name, and keeps them for as long as anybody uses it. So files
// come again under another inode number when they change, and folders, which programs stay in, are given the mode and
// owner that they have now through the overlay itself. Its upper layer has a copy of such a folder then: in the scratch
// folder, or else in memory.
//
// Thread-safety: any thread, once it was placed or taken over.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/fuse/kernel/scratch_folder.h"
#include "headrace/io/mutex.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

class Overlay {
 public:
  // Mode and owner of a folder as those who look are to see them.
  using Show = std::function<cache::AttributeClass(cache::EntryId)>;
  Overlay(const cache::Catalog& catalog, std::filesystem::path path, Show show)
      : catalog_(catalog), path_(std::move(path)), show_(std::move(show)) {}

  // A process before this one has placed it.
  void take_over() { is_there_ = true; }
  // Where it is there already, the scratch folder is taken all the same. `scratch` empty: read-only. Errors:
  // kPermission (not root), kUnsupported (no overlayfs in this kernel, not over this, or it does not write to the file
  // system of the scratch folder), those of ScratchFolder::take(), kSystem.
  [[nodiscard]] io::Status place(const std::filesystem::path& scratch);
  [[nodiscard]] bool is_there() const { return is_there_; }

  // Below, these names have been forgotten: the overlay forgets all that are not in use, and shows the folders among
  // them as they are now. Where a folder cannot be shown so, the root is closed to all but its owner. Errors: kSystem.
  [[nodiscard]] io::Status forget(std::span<const cache::EntryId> entries);
  // The same of all folders that have another mode or owner than in the catalog before this one, which had other names.
  // The process before this one may have died before it told the overlay.
  [[nodiscard]] io::Status forget_since(const cache::Catalog& before);
  // The kernel keeps a name that it has looked up. When it looks again, the overlay may have kept a file that somebody
  // had open, which nobody else can open until the overlay forgets it. `inode`: of the version that is shown now.
  [[nodiscard]] bool is_asked_again(std::uint64_t inode);

 private:
  [[nodiscard]] io::Status place_new();
  [[nodiscard]] io::Status show_folders(const io::UniqueFd& root, std::span<const cache::EntryId> folders) const;
  [[nodiscard]] io::Status show_folder(const io::UniqueFd& root, cache::EntryId folder) const;

  const cache::Catalog& catalog_;
  const std::filesystem::path path_;
  const Show show_;
  std::atomic<bool> is_there_ = false;
  std::optional<ScratchFolder> scratch_;  // locked for as long as the mount lives
  io::Mutex mutex_;
  std::unordered_set<std::uint64_t> asked_ HEADRACE_GUARDED_BY(mutex_);  // since the overlay has forgotten names
};

}  // namespace headrace::fuse
