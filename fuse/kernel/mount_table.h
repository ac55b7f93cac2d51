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

struct ChannelOptions;

struct MountEntry {
  std::string path;
  std::string device;  // "0:35": unlike the path, never another mount's while this one lives
  std::string fs_type;
  std::string source;
  std::string options;  // of its super block: "rw,user_id=0,..."
  std::string root;     // what of the file system lies at the path: "/" is all of it

  [[nodiscard]] bool is_headrace() const;  // a mount of headrace or the overlay over one
  [[nodiscard]] bool is_overlay() const;
};

// What `mountinfo` (the text of /proc/self/mountinfo) lists at `path`, lowest first.
[[nodiscard]] std::vector<MountEntry> mounts_at(std::string_view mountinfo, std::string_view path);
[[nodiscard]] std::vector<MountEntry> mounts_at(const std::filesystem::path& path);

// Absolute and free of symlinks, also where a dead mount lies at its end. Errors: kNotFound, kPermission.
[[nodiscard]] io::Result<std::filesystem::path> resolve_mount_point(const std::filesystem::path& path);

// Whether something may be mounted at the resolved path; clears a dead mount of headrace. Errors: as open_channel().
[[nodiscard]] io::Status check_mount_point(const std::filesystem::path& path, const ChannelOptions& options);

// Where all of the mount `device` is shown and nothing lies on it, in the order in which it was mounted there.
[[nodiscard]] std::vector<std::filesystem::path> places_of(std::string_view mountinfo, std::string_view device);
[[nodiscard]] std::vector<std::filesystem::path> places_of(const std::string& device);

// Detaches what lies at the resolved path from the top down to the mount `device`, if that is there, and the mount at
// the other places where all of it is shown. `connection`: its /dev/fuse; -1: the mount lives. Once it has gone,
// another one may have its number.
[[nodiscard]] io::Status unmount_device(const std::filesystem::path& path, const std::string& device, int connection);
// Makes the kernel end the connection at once: what waits for an answer gets an error. Needs root, else no effect.
void abort_connection(const std::filesystem::path& path, const std::string& device);

}  // namespace headrace::fuse
