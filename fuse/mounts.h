// SPDX-License-Identifier: Apache-2.0
// The mounts of headrace that this process sees, whoever made them.
//
//   for (const fuse::SeenMount& mount : fuse::seen_mounts()) fmt::print("{}\n", mount.path.string());
//
// Those in mount namespaces of their own (containers) are not seen from outside.
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "headrace/io/result.h"

namespace headrace::fuse {

struct SeenMount {
  std::filesystem::path path;                  // where it was first, of the places that it still has
  std::vector<std::filesystem::path> also_at;  // the whole of it is shown there, too
  std::string source_name;                     // MountOptions::source_name
  std::optional<uid_t> user;                   // who mounted it; nullopt: the table does not say

  // The path is one of its places.
  [[nodiscard]] bool is_at(const std::filesystem::path& place) const;
};

// In the order in which they were mounted, each once.
[[nodiscard]] std::vector<SeenMount> seen_mounts();
// The same of `mountinfo`, the text of /proc/self/mountinfo.
[[nodiscard]] std::vector<SeenMount> seen_mounts(std::string_view mountinfo);

// Whether this user has a mount at the resolved path whose connection lives: a process serves it, or holds it for one
// that is about to. Where nobody answers yet, it waits for up to `patience`.
[[nodiscard]] bool has_living_mount(const std::filesystem::path& path, std::chrono::milliseconds patience);

// The places that show all of the mount `device`, also below its own overlay. By the mount table alone: no mount that
// hangs is asked.
[[nodiscard]] std::vector<std::filesystem::path> shown_at(const std::string& device);

// Whether one of these devices ("0:35", as devices_at() in fuse/channel.h names them) is shown anywhere.
[[nodiscard]] bool is_shown(const std::vector<std::string>& devices);

// Shows the mount at `shown`, a resolved path, at the empty folder `at`, too: the same files, pages and daemon (a bind
// mount). Each of the places may go by unmount(); all of them go with the daemon. `covers`: the folder may have
// content. False: there is no mount of headrace at `shown`, or not any more; then nothing is shown.
// Errors: as open_channel(); kPermission (only root can).
[[nodiscard]] io::Result<bool> show_also_at(const std::filesystem::path& shown, const std::filesystem::path& at,
                                            bool covers);

}  // namespace headrace::fuse
