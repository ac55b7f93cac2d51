// SPDX-License-Identifier: Apache-2.0
// Where a mount is reached by the process that serves it. It may be shown at several places, and the first may go while
// others are read.
//
//   const auto mounted_at = std::make_shared<MountedAt>("/mnt/x", channel.device());
//   ::lstat((mounted_at->path() / "train/0.jpg").c_str(), &status);
//
// Thread-safety: any thread. Holds no descriptor of the mount itself, which would keep it from ending.
#pragma once

#include <filesystem>
#include <string>

#include "headrace/io/mutex.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

class MountedAt {
 public:
  MountedAt(std::filesystem::path first, std::string device);

  // The first of the places, as long as it is one; then another. Looks again only after something was mounted or
  // unmounted on the machine.
  [[nodiscard]] std::filesystem::path path() const;

 private:
  [[nodiscard]] std::filesystem::path look() const;

  const std::filesystem::path first_;
  const std::string device_;
  const io::UniqueFd table_;  // tells when it changes (proc(5), mountinfo)
  mutable io::Mutex mutex_;
  mutable std::filesystem::path path_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse
