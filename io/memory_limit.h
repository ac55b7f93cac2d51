// SPDX-License-Identifier: Apache-2.0
// The memory that this machine, or the container we run in, lets us use.
//
// Thread-safety: any thread. The parameters are for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace headrace::io {

// Where control groups and the list of our own are found.
struct ControlGroupPaths {
  std::filesystem::path root = "/sys/fs/cgroup";
  std::filesystem::path self = "/proc/self/cgroup";
};

// Memory that this process may use: the machine's, or what its control group (version 1 or 2) allows where that is
// less.
[[nodiscard]] std::uint64_t memory_limit_bytes();

// What the control groups of the calling process allow: the least limit of the whole path; nullopt: there is none.
[[nodiscard]] std::optional<std::uint64_t> control_group_memory_limit(const ControlGroupPaths& paths = {});

// Some control group of the calling process uses nearly all that it may, page cache included: what it drops then, it
// drops for want of memory.
[[nodiscard]] bool is_near_memory_limit(const ControlGroupPaths& paths = {});

}  // namespace headrace::io
