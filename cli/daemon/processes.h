// SPDX-License-Identifier: Apache-2.0
// What /proc tells of other processes: which ones keep a mount in use.
//
// Thread-safety: any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace headrace::cli {

struct Holder {
  pid_t pid = 0;
  std::string command;  // as ps shows it in short
  std::string how;      // "works in it", "has 3 of its files open"
};
[[nodiscard]] std::string describe(const std::vector<Holder>& holders);

// The processes that work in a mount or have files of it open, as far as this user may look. Ask before the mount is
// detached: afterwards /proc no longer tells where their files lie.
[[nodiscard]] std::vector<Holder> users_of(const std::filesystem::path& mount_point);

// One process of each other mount namespace that has one of these devices ("0:35") mounted.
[[nodiscard]] std::vector<Holder> namespaces_with(const std::vector<std::string>& devices);

}  // namespace headrace::cli
