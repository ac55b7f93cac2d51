// SPDX-License-Identifier: Apache-2.0
// What is mounted where, and the checks before something is mounted there.
//
// Thread-safety: every function from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::fuse {

// How headrace's mounts are told from others in the mount table.
inline constexpr std::string_view kSubtype = "headrace";                // the mount's type is fuse.headrace
inline constexpr std::string_view kOverlaySource = "headrace-overlay";  // source of the overlay over it

struct MountEntry {
  std::string path;
  std::string fs_type;
  std::string source;

  [[nodiscard]] bool is_headrace() const;
};

// What `mountinfo` (the text of /proc/self/mountinfo) lists at `path`, lowest first.
[[nodiscard]] std::vector<MountEntry> mounts_at(std::string_view mountinfo, std::string_view path);
[[nodiscard]] std::vector<MountEntry> mounts_at(const std::filesystem::path& path);

// Absolute and free of symlinks, also where a dead mount lies at its end. Errors: kNotFound, kPermission.
[[nodiscard]] io::Result<std::filesystem::path> resolve_mount_point(const std::filesystem::path& path);

// Whether something may be mounted at the resolved path; clears a dead mount of headrace. Errors: as open_channel().
[[nodiscard]] io::Status check_mount_point(const std::filesystem::path& path, bool may_have_content);

}  // namespace headrace::fuse
