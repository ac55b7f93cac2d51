// SPDX-License-Identifier: Apache-2.0
// Where an overlay keeps what is written: upper/ has the files as they are called below the mount point, work/ is the
// kernel's. It is this object's alone for as long as it lives: two overlays that write to one folder would damage it.
//
//   HEADRACE_TRY(scratch, ScratchFolder::take("/nvme/scratch"));
//
// Files lie there as programs wrote them, setuid bits included, so nobody else may enter it. It belongs to the calling
// user, and everything in it is reached through its descriptor and without following symbolic links.
//
// Thread-safety: none needed after take().
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

// The two folders that an overlay writes to.
struct LayerFolders {
  io::UniqueFd upper;
  io::UniqueFd work;
  bool is_new = false;  // upper

  // Makes them where there are none. Errors: kPermission (one is another user's), kSystem (it is a link, or no folder).
  [[nodiscard]] static io::Result<LayerFolders> open(const io::UniqueFd& folder);
};

class ScratchFolder {
 public:
  // Makes the folder where there is none. Errors: kBusy (another mount has it), kPermission (it is another user's, or
  // others may write to it, or a link of theirs leads there), kInvalidArgument (it is open to others, and holds other
  // files), kNoSpace, kSystem.
  [[nodiscard]] static io::Result<ScratchFolder> take(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const LayerFolders& layers() const { return layers_; }
  // The folders of the catalog that upper/ has copies of, the root first.
  [[nodiscard]] std::vector<cache::EntryId> copied_folders(const cache::Catalog& catalog) const;
  // Whether a program has put something of its own in the place of this folder, or of one above it.
  [[nodiscard]] bool has_replaced(const std::string& path) const;

 private:
  ScratchFolder(std::filesystem::path path, io::UniqueFd folder, LayerFolders layers)
      : path_(std::move(path)), folder_(std::move(folder)), layers_(std::move(layers)) {}

  std::filesystem::path path_;
  io::UniqueFd folder_;  // locked
  LayerFolders layers_;
};

}  // namespace headrace::fuse
