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

namespace headrace::fuse {

struct SeenMount {
  std::filesystem::path path;
  std::string source_name;    // MountOptions::source_name
  std::optional<uid_t> user;  // who mounted it; nullopt: the table does not say
};

// In the order in which they were mounted. One that is bound to other places, too, is listed where it was first.
[[nodiscard]] std::vector<SeenMount> seen_mounts();
// The same of `mountinfo`, the text of /proc/self/mountinfo.
[[nodiscard]] std::vector<SeenMount> seen_mounts(std::string_view mountinfo);

// Whether this user has a mount at the resolved path whose connection lives: a process serves it, or holds it for one
// that is about to. Where nobody answers yet, it waits for up to `patience`.
[[nodiscard]] bool has_living_mount(const std::filesystem::path& path, std::chrono::milliseconds patience);

}  // namespace headrace::fuse
