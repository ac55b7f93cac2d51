// SPDX-License-Identifier: Apache-2.0
// The control groups that bound this process, in both versions: where to look for a limit of memory, processors or I/O.
//
//   for (const ControlGroup& group : control_groups("memory"))
//     read(group.folder / (group.version == 2 ? "memory.max" : "memory.limit_in_bytes"));
//
// Thread-safety: any thread.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace headrace::io {

// Where control groups and the list of our own are found; another place is for tests.
struct ControlGroupPaths {
  std::filesystem::path root = "/sys/fs/cgroup";
  std::filesystem::path self = "/proc/self/cgroup";
};

struct ControlGroup {
  std::filesystem::path folder;  // need not exist, nor have the controller's files
  int version = 2;
};

// Our own group and all above it: a limit of any of them holds. The root of the hierarchy is the last. Inside a
// container the path may not exist below the root that is mounted there; the root then is the container's own group.
[[nodiscard]] std::vector<ControlGroup> control_groups(std::string_view controller,
                                                       const ControlGroupPaths& paths = {});

}  // namespace headrace::io
