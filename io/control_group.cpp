// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/control_group.h"

#include <fstream>
#include <string>

#include <fmt/core.h>

namespace headrace::io {
namespace {

namespace fs = std::filesystem;

void add_path(const fs::path& root, fs::path group, int version, std::vector<ControlGroup>& to) {
  for (; group.has_relative_path(); group = group.parent_path()) to.push_back({root / group.relative_path(), version});
  to.push_back({root, version});
}

}  // namespace

// Lines of /proc/self/cgroup: "4:memory,hugetlb:/path" (version 1), "0::/path" (version 2).
std::vector<ControlGroup> control_groups(std::string_view controller, const ControlGroupPaths& paths) {
  std::ifstream lines(paths.self);
  std::vector<ControlGroup> groups;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") add_path(paths.root, group, 2, groups);
    if (controllers.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    add_path(paths.root / controller, group, 1, groups);
  }
  return groups;
}

}  // namespace headrace::io
