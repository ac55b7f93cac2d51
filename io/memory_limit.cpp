// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include <unistd.h>

#include "headrace/io/page_bytes.h"

namespace headrace::io {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// Version 1 writes the largest multiple of the page size below 2^63 for "no limit".
constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 62;
// The kernel sets pages free when the limit is met. At a time it frees less than a sixteenth.
constexpr std::uint64_t kNearShare = 16;

// A limit file holds a number, or "max" (version 2). `missing`: what stands for a file that says nothing.
std::uint64_t read_bytes(const std::filesystem::path& file, std::uint64_t missing) {
  std::ifstream stream(file);
  std::uint64_t bytes = 0;
  return stream >> bytes ? bytes : missing;
}

std::uint64_t limit_of(const ControlGroup& group) {
  return read_bytes(group.folder / (group.version == 2 ? "memory.max" : "memory.limit_in_bytes"), kUnlimited);
}

std::uint64_t usage_of(const ControlGroup& group) {
  return read_bytes(group.folder / (group.version == 2 ? "memory.current" : "memory.usage_in_bytes"), 0);
}

}  // namespace

std::optional<std::uint64_t> control_group_memory_limit(const ControlGroupPaths& paths) {
  std::uint64_t least = kUnlimited;
  for (const ControlGroup& group : control_groups("memory", paths)) least = std::min(least, limit_of(group));
  return least < kNoLimitBytes ? std::optional(least) : std::nullopt;
}

bool is_near_memory_limit(const ControlGroupPaths& paths) {
  return std::ranges::any_of(control_groups("memory", paths), [](const ControlGroup& group) {
    const std::uint64_t limit = limit_of(group);
    return limit < kNoLimitBytes && usage_of(group) >= limit - limit / kNearShare;
  });
}

std::uint64_t memory_limit_bytes() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const std::uint64_t machine = pages * page_bytes();
  return std::min(machine, control_group_memory_limit().value_or(machine));
}

}  // namespace headrace::io
