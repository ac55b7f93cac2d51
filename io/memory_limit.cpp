// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <unistd.h>

namespace headrace::io {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// Version 1 writes the largest multiple of the page size below 2^63 for "no limit".
constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 62;
// The kernel reclaims when the limit is met; a sixteenth is more than it sets free at a time.
constexpr std::uint64_t kNearShare = 16;

struct GroupFiles {
  fs::path limit;
  fs::path usage;
};

// A limit file holds a number, or "max" (version 2). `missing`: what stands for a file that says nothing.
std::uint64_t read_bytes(const fs::path& file, std::uint64_t missing) {
  std::ifstream stream(file);
  std::uint64_t bytes = 0;
  return stream >> bytes ? bytes : missing;
}

std::uint64_t limit_of(const GroupFiles& group) {
  return read_bytes(group.limit, kUnlimited);
}

// The group itself and all above it, up to the root of its hierarchy.
void add_groups(const fs::path& root, fs::path group, const GroupFiles& names, std::vector<GroupFiles>& to) {
  for (; group.has_relative_path(); group = group.parent_path()) {
    const fs::path folder = root / group.relative_path();
    to.push_back({folder / names.limit, folder / names.usage});
  }
  to.push_back({root / names.limit, root / names.usage});
}

// Lines of /proc/self/cgroup: "4:memory:/path" (version 1), "0::/path" (version 2).
std::vector<GroupFiles> memory_groups(const ControlGroupPaths& paths) {
  std::ifstream lines(paths.self);
  std::vector<GroupFiles> groups;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") add_groups(paths.root, group, {"memory.max", "memory.current"}, groups);
    if (controllers.find(",memory,") != std::string::npos) {
      add_groups(paths.root / "memory", group, {"memory.limit_in_bytes", "memory.usage_in_bytes"}, groups);
    }
  }
  return groups;
}

}  // namespace

std::optional<std::uint64_t> control_group_memory_limit(const ControlGroupPaths& paths) {
  std::uint64_t least = kUnlimited;
  for (const GroupFiles& group : memory_groups(paths)) least = std::min(least, limit_of(group));
  return least < kNoLimitBytes ? std::optional(least) : std::nullopt;
}

bool is_near_memory_limit(const ControlGroupPaths& paths) {
  const std::vector<GroupFiles> groups = memory_groups(paths);
  return std::any_of(groups.begin(), groups.end(), [](const GroupFiles& group) {
    const std::uint64_t limit = limit_of(group);
    return limit < kNoLimitBytes && read_bytes(group.usage, 0) >= limit - limit / kNearShare;
  });
}

std::uint64_t memory_limit_bytes() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const std::uint64_t machine = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, control_group_memory_limit().value_or(machine));
}

}  // namespace headrace::io
