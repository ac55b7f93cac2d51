// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/machine.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <unistd.h>

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// Version 1 writes the largest multiple of the page size below 2^63 for "no limit".
constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 62;

// A limit file holds a number, or "max" (version 2).
std::uint64_t read_limit(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t bytes = kUnlimited;
  return stream >> bytes ? bytes : kUnlimited;
}

// The least limit from the group itself up to the root of its hierarchy.
std::uint64_t least_limit(const fs::path& root, fs::path group, const char* file) {
  std::uint64_t least = read_limit(root / file);
  for (; group.has_relative_path(); group = group.parent_path()) {
    least = std::min(least, read_limit(root / group.relative_path() / file));
  }
  return least;
}

}  // namespace

// Lines of /proc/self/cgroup: "4:memory:/path" (version 1), "0::/path" (version 2).
std::optional<std::uint64_t> control_group_memory_limit(const fs::path& cgroup_root, const fs::path& self_cgroup) {
  std::ifstream groups(self_cgroup);
  std::uint64_t least = kUnlimited;
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") least = std::min(least, least_limit(cgroup_root, group, "memory.max"));
    if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, least_limit(cgroup_root / "memory", group, "memory.limit_in_bytes"));
    }
  }
  return least < kNoLimitBytes ? std::optional(least) : std::nullopt;
}

std::string read_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::uint64_t memory_limit_bytes() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const std::uint64_t machine = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, control_group_memory_limit().value_or(machine));
}

}  // namespace headrace::cli
